"""Which proxy the environment names for a server. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit


def proxy_for(base: str, proxies: Mapping[str, str], is_bypassed: Callable[[str], object]) -> str | None:
    """Choose the proxy for a server.

    Args:
        base: The server's address.
        proxies: By scheme, as `urllib.request.getproxies` reads them.
        is_bypassed: Whether a host is named by NO_PROXY.
    Returns:
        None where there is none.

    >>> proxy_for("https://api.telegram.org", {"https": "http://proxy:3128"}, lambda host: False)
    'http://proxy:3128'
    >>> proxy_for("http://127.0.0.1:8081", {"http": "http://proxy:3128"}, lambda host: True) is None
    True
    >>> proxy_for("https://api.telegram.org", {"https": "proxy:3128"}, lambda host: False)
    'http://proxy:3128'
    """
    try:
        parts = urlsplit(base)
        host = parts.hostname or ""
    except ValueError:
        return None
    if is_bypassed(host):
        return None
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    # Other programs take one without a scheme.
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


__all__ = ["proxy_for"]
