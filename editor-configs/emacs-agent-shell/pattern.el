(require 'agent-shell)

(add-to-list
 'agent-shell-agent-configs
 (agent-shell-make-agent-config
  :identifier 'pattern
  :mode-line-name "Pattern"
  :buffer-name "Pattern"
  :shell-prompt "Pattern> "
  :shell-prompt-regexp "Pattern> "
  :client-maker
  (lambda (buffer)
    (agent-shell--make-acp-client
     :command "pattern-acp"
     :command-params '("acp")
     :environment-variables nil
     :context-buffer buffer))))
