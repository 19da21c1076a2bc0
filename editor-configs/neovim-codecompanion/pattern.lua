require("codecompanion").setup({
  adapters = {
    acp = {
      pattern = function()
        local helpers = require("codecompanion.adapters.acp.helpers")
        return {
          name = "pattern",
          formatted_name = "Pattern",
          type = "acp",
          roles = { llm = "assistant", user = "user" },
          opts = { vision = true },
          commands = { default = { "pattern-acp", "acp" } },
          defaults = { mcpServers = {}, timeout = 20000 },
          env = {},
          parameters = {
            protocolVersion = 1,
            clientCapabilities = { fs = { readTextFile = true, writeTextFile = true } },
            clientInfo = { name = "CodeCompanion.nvim", version = "1.0.0" },
          },
          handlers = {
            setup = function(_)
              return true
            end,
            -- Keys come from the environment, so there is nothing to sign in to.
            auth = function(_)
              return true
            end,
            form_messages = function(self, messages, capabilities)
              return helpers.form_messages(self, messages, capabilities)
            end,
            on_exit = function(_, _) end,
          },
        }
      end,
    },
  },
  interactions = { chat = { adapter = "pattern" } },
})
