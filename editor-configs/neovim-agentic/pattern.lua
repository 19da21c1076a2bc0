require("agentic").setup({
  provider = "pattern-acp",
  acp_providers = {
    ["pattern-acp"] = {
      name = "Pattern",
      command = "pattern-acp",
      args = { "acp" },
      env = {
        HOME = os.getenv("HOME"),
        ANTHROPIC_API_KEY = os.getenv("ANTHROPIC_API_KEY"),
        OPENAI_API_KEY = os.getenv("OPENAI_API_KEY"),
        GEMINI_API_KEY = os.getenv("GEMINI_API_KEY"),
        OLLAMA_HOST = os.getenv("OLLAMA_HOST"),
      },
    },
  },
})
