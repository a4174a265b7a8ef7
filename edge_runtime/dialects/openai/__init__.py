"""OpenAI's speech-to-text interfaces: recordings over HTTP, live audio over a WebSocket."""
