"""Version 2 of ACP, for connections that choose it at initialize. Nothing of version 1 imports it."""
