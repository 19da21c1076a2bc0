require("avante").setup({
  provider = "pattern",
  acp_providers = {
    ["pattern"] = {
      command = "pattern-acp",
      args = { "acp" },
      -- avante passes PATH and this table, and nothing else.
      env = {
        HOME = os.getenv("HOME"),
        ANTHROPIC_API_KEY = os.getenv("ANTHROPIC_API_KEY"),
        OPENAI_API_KEY = os.getenv("OPENAI_API_KEY"),
        GEMINI_API_KEY = os.getenv("GEMINI_API_KEY"),
        OLLAMA_HOST = os.getenv("OLLAMA_HOST"),
      },
    },
  },
  behaviour = { auto_approve_tool_permissions = false },
})
