"""Adapters that other packages bring: what is installed, and how to load one by its name."""

from .runtime.plugins import GROUP, KnownAdapter, known_adapters, load_adapter, settings_of

__all__ = ["GROUP", "KnownAdapter", "known_adapters", "load_adapter", "settings_of"]
