"""Makes Python clients that ignore the environment trust and use Oncegate. Put first on PYTHONPATH by
`oncegate run` and `oncegate env`; does nothing when HTTPS_PROXY or SSL_CERT_FILE is not set.

- stripe brings its own roots and reads no variable: `stripe.ca_bundle_path` is set when it is imported.
- aiohttp asks the environment only if told to: `trust_env` becomes the default.
- urllib3 asks it never: a `PoolManager` takes its connections for https from a `ProxyManager`, and gives it its requests
  for http.

A `sitecustomize` that was there before still runs.
"""

import functools
import importlib.machinery
import importlib.util
import os
import sys


def _patch_stripe(module):
    bundle = os.environ.get("SSL_CERT_FILE")
    if bundle:
        module.ca_bundle_path = bundle


def _proxy():
    return os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")


def _patch_aiohttp(module):
    if not _proxy():
        return
    session = module.ClientSession
    original = session.__init__

    @functools.wraps(original)
    def init(self, *args, **kwargs):
        kwargs.setdefault("trust_env", True)
        original(self, *args, **kwargs)

    session.__init__ = init


def _patch_urllib3(module):
    from urllib.parse import unquote, urlsplit
    from urllib.request import proxy_bypass_environment

    if not _proxy():
        return
    address = urlsplit(_proxy())
    headers = None
    if address.username:
        credentials = "%s:%s" % (unquote(address.username), unquote(address.password or ""))
        headers = module.make_headers(proxy_basic_auth=credentials)
    direct = module.PoolManager.connection_from_host
    asked = module.PoolManager.urlopen

    def through(self, host):
        # Whoever has chosen a proxy keeps it; that of a SOCKS manager stands only here.
        own = self.proxy is not None or "_socks_options" in self.connection_pool_kw
        if own or not host or proxy_bypass_environment(host):
            return None
        manager = self.__dict__.get("_oncegate_proxy_manager")
        if manager is None:
            manager = module.ProxyManager(_proxy(), proxy_headers=headers, **self.connection_pool_kw)
            self._oncegate_proxy_manager = manager
        return manager

    @functools.wraps(direct)
    def connection_from_host(self, host, port=None, scheme="http", pool_kwargs=None):
        manager = through(self, host) if scheme == "https" else None
        if manager is None:
            return direct(self, host, port, scheme, pool_kwargs)
        return manager.connection_from_host(host, port, scheme, pool_kwargs)

    @functools.wraps(asked)
    def urlopen(self, method, url, redirect=True, **kw):
        # A connection to a proxy is not enough for http: the request has to name the whole URL, which its manager sees to.
        parts = urlsplit(url)
        manager = through(self, parts.hostname) if parts.scheme == "http" else None
        if manager is None:
            return asked(self, method, url, redirect, **kw)
        kw.setdefault("headers", self.headers)
        return manager.urlopen(method, url, redirect, **kw)

    module.PoolManager.connection_from_host = connection_from_host
    module.PoolManager.urlopen = urlopen


_PATCHES = {"stripe": _patch_stripe, "aiohttp": _patch_aiohttp, "urllib3": _patch_urllib3}


class _AfterImport:
    """Finds nothing by itself: lets the others find a module, and patches it once it has run."""

    def __init__(self):
        self._asking = set()

    def find_spec(self, name, path=None, target=None):
        patch = _PATCHES.get(name)
        if patch is None or name in self._asking:
            return None
        self._asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.discard(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            _wrap(spec.loader, patch)
        return spec


def _apply(patch, module):
    try:
        patch(module)
    except Exception as error:  # A version that looks different must still import.
        sys.stderr.write("oncegate: cannot prepare %s: %s\n" % (module.__name__, error))


def _wrap(loader, patch):
    original = loader.exec_module

    def exec_module(module):
        original(module)
        _apply(patch, module)

    try:
        # On the instance, so that the loader keeps its type for whoever looks at it.
        loader.exec_module = exec_module
    except AttributeError:
        pass


def _run_the_shadowed_one():
    here = os.path.dirname(os.path.abspath(__file__))
    rest = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


# A line of a .pth file may have imported one before.
for _name in [_name for _name in _PATCHES if _name in sys.modules]:
    _apply(_PATCHES[_name], sys.modules[_name])
sys.meta_path.insert(0, _AfterImport())
_run_the_shadowed_one()
