"""Channel plug-ins by name: which are installed, their settings in an environment, one of them made."""

from .runtime.plugins import known_adapters, load_adapter, settings_of

__all__ = ["known_adapters", "load_adapter", "settings_of"]
