"""The OpenAI Chat Completions wire, as OpenAI, Ollama, LM Studio, llama-server, vLLM, OpenRouter and others speak it.

Owns: its format, in pure `encode` and `decode`, and what joins them in `provider`. Must not know: how HTTP is carried
out, retries, other wires.
"""
