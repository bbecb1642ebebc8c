"""A whole chat app in small, without a language model: ``python -m examples.chat_app --help``."""
