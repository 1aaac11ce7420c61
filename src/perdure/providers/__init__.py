"""Who answers for models: the built-in one, Anthropic, whoever speaks OpenAI's forms. `ports.provider` is the port."""
