"""Opens a constellation and everything its sessions share."""
