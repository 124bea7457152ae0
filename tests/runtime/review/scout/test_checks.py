"""Each rule of the bug pass: what it finds, and the near miss that it must let pass."""

# ruff: noqa: E501 - an example stands on one line, however long

from __future__ import annotations

import json
import subprocess

import pytest

from ether.review.scout.findings.rule import RULES, RULES_OF_RUFF
from ether.review.scout.ruff import require_ruff
from ether.review.scout.selection import _KEEP
from tests.runtime.review.scout.support import findings_in, rules_in

FOUND: dict[str, list[str]] = {
    "positional-flags": ["import re\ndef f(x):\n    return re.sub('a', 'b', x, re.IGNORECASE)\n"],
    "mutable-default": [
        "def add(x, to=[]):\n    to += [x]\n",
        "def add(x, to=[]):\n    to.append(x)\n    return len(to)\n",
        "def count(*, seen={}):\n    seen['n'] = 1\n",
        "def give(x=list()):\n    return x\n",
        "class Box:\n    def __init__(self, items=[]):\n        self.items = items\n    def put(self, x):\n        self.items.append(x)\n",
    ],
    "default-evaluated-once": [
        "import time\ndef log(at=time.time()):\n    print(at)\n",
        "from datetime import datetime as dt\ndef log(*, at=dt.now()):\n    print(at)\n",
    ],
    "redefinition": [
        "class A:\n    pass\n\nclass A:\n    x = 1\n",
        "def f():\n    return 1\n\ndef f():\n    return 2\n",
        "class A:\n    def m(self):\n        return 1\n    def m(self):\n        return 2\n",
    ],
    "special-method-arity": [
        "class A:\n    def __exit__(self):\n        return None\n",
        "class A:\n    def __len__(self, other):\n        return 0\n",
    ],
    "init-returns-value": [
        "class A:\n    def __init__(self):\n        return 5\n",
    ],
    "changed-while-iterated": [
        "def f(d):\n    for k in d:\n        if k:\n            del d[k]\n",
        "def f(xs):\n    for x in xs:\n        xs.remove(x)\n",
    ],
    "bare-except": [
        "def f():\n    try:\n        g = 1 / 0\n        print(g)\n        print(1)\n        print(2)\n        print(3)\n    except:\n        print('x')\n",
    ],
    "raise-notimplemented": [
        "def f():\n    raise NotImplemented\n",
        "def f():\n    raise NotImplemented('x')\n",
    ],
    "raise-non-exception": [
        "def f():\n    raise 'wrong'\n",
    ],
    "exception-not-raised": [
        "def f(x):\n    if x:\n        ValueError('bad')\n    return x\n",
    ],
    "finally-swallows": [
        "def f():\n    try:\n        return 1\n    finally:\n        return 2\n",
        "def f():\n    while True:\n        try:\n            print(1)\n        finally:\n            break\n",
    ],
    "is-literal": [
        "def f(x):\n    return x is 'a'\n",
        "def f(x):\n    return x is not 5\n",
        "def f(x):\n    return x is ()\n",
    ],
    "constant-condition": [
        "def f(x):\n    if x == 'a' or 'b':\n        return 1\n",
    ],
    "unused-comparison": [
        "def f(x):\n    x == 5\n    return x\n",
    ],
    "assert-tuple": [
        "def f(x):\n    assert (x, 'message')\n",
    ],
    "unreachable-code": [
        "def f():\n    return 1\n    print(2)\n",
        "def f(x):\n    if x:\n        return 1\n    else:\n        raise ValueError\n    print(2)\n",
        "for x in []:\n    continue\n    print(x)\n",
    ],
    "repeated-condition": [
        "def f(x):\n    if x == 1:\n        return 1\n    elif x == 2:\n        return 2\n    elif x == 1:\n        return 3\n",
    ],
    "identical-branches": [
        "def f(x):\n    return 1 if x else 1\n",
    ],
    "invalid-escape": [
        "import re\nP = re.compile('\\d+')\n",
    ],
    "forgotten-f": [
        "def f(name):\n    raise ValueError('no such {name}')\n",
        "def f():\n    size = 1\n    print('size {size!r}')\n",
    ],
    "strip-takes-characters": [
        "def f(x):\n    return x.lstrip('https://')\n",
        "def f(x):\n    return x.strip('www.')\n",
    ],
    "percent-format": [
        "def f(a):\n    return '%(x)s' % (a, a)\n",
        "def f(a):\n    return '%s %s' % {'x': a}\n",
        "def f(a):\n    return '%s %s' % (a,)\n",
        "def f(a):\n    return '%(x)s' % {'y': a}\n",
        "def f(a):\n    return '%s %(x)s' % {'x': a}\n",
        "def f(a):\n    return 'none' % (a,)\n",
        "def f(a):\n    return '%s %s' % 'one'\n",
        "def f(a):\n    return '%s %y' % (a, a)\n",
    ],
    "brace-format": [
        "def f(a):\n    return '{} {}'.format(a)\n",
        "def f(a):\n    return '{name}'.format(nam=a)\n",
        "def f(a):\n    return '{'.format(a)\n",
        "def f(a):\n    return '{:{width}}'.format(a)\n",
    ],
    "unused-format-value": [
        "def f(a, b):\n    return '{}'.format(a, b)\n",
        "def f(a):\n    return 'x'.format(name=a)\n",
    ],
    "logging-format": [
        "import logging\nlogger = logging.getLogger()\ndef f(a):\n    logger.info('%s of %s', a)\n",
    ],
    "duplicate-key": [
        "D = {'a': 1, 'b': 2, 'a': 3}\n",
    ],
    "unused-import": [
        "import os\nimport sys\n\ndef f():\n    return sys.argv\n",
        "from os import path\n\nclass A:\n    pass\n",
    ],
    "removed-from-python": [
        "class T(TestCase):\n    def test(self):\n        self.assertEquals(1, 1)\n",
        "import imp\nprint(imp)\n",
        "import collections\nclass A(collections.Mapping):\n    pass\n",
        "from inspect import getargspec\nprint(getargspec)\n",
    ],
    "undefined-name": [
        "def g(thing):\n    return thing\ndef f():\n    return thing\n",
        "def f():\n    return undefined_thing\n",
        "print(undefined_thing)\n",
    ],
    "undefined-export": [
        "__all__ = ['f', 'g']\n\ndef f():\n    return 1\n",
    ],
    "unused-variable": [
        "def f(x):\n    y = x + 1\n    return x\n",
    ],
    "self-assignment": [
        "def f(x):\n    x = x\n    return x\n",
    ],
    "missing-await": [
        "async def go():\n    return 1\n\nasync def main():\n    go()\n",
        "class A:\n    async def go(self):\n        return 1\n    async def main(self):\n        self.go()\n",
        "import asyncio\nasync def main():\n    asyncio.sleep(1)\n",
    ],
    "dangling-task": [
        "import asyncio\nasync def main(x):\n    asyncio.create_task(x())\n",
    ],
    "blocking-call-in-async": [
        "import time\nasync def main():\n    time.sleep(1)\n",
    ],
    "request-without-timeout": [
        "import requests\ndef f(u):\n    return requests.get(u)\n",
    ],
    "shell-injection": [
        "import os\ndef f(x):\n    os.popen('ls {}'.format(x))\n",
        "import subprocess\ndef f(x):\n    subprocess.run(f'ls {x}', shell=True)\n",
        "import os\ndef f(x):\n    os.system('ls ' + x)\n",
    ],
    "unsafe-yaml": [
        "import yaml\ndef f(x):\n    return yaml.load(x)\n",
        "import yaml\ndef f(x):\n    return yaml.load(x, Loader=yaml.Loader)\n",
    ],
    "unverified-tls": [
        "import ssl\ndef f():\n    return ssl._create_unverified_context()\n",
        "import requests\ndef f(u):\n    return requests.get(u, verify=False, timeout=1)\n",
    ],
    "predictable-temporary-name": [
        "import tempfile\ndef f():\n    return tempfile.mktemp()\n",
    ],
    "hidden-text-direction": [
        "FORMAT = 'admin\u202e'\n",
    ],
    "wrong-all": [
        "__all__ = [1]\n",
    ],
    "nan-comparison": [
        "import numpy\ndef f(x):\n    return x == numpy.nan\n",
    ],
    "not-in-slots": [
        "class A:\n    __slots__ = ('x',)\n    def __init__(self):\n        self.y = 1\n",
    ],
    "token-in-source": [
        "KEY = 'AKIAQWERTYUIOPASDFGH'\n",
    ],
    "leftover-breakpoint": [
        "def f(x):\n    breakpoint()\n    return x\n",
        "import pdb\ndef f(x):\n    pdb.set_trace()\n    return x\n",
    ],
    "swallowed-exception": [
        "try:\n    x = 1\n    print(x)\n    print(2)\n    print(3)\n    print(4)\nexcept Exception:\n    pass\n",
    ],
    "cached-method": [
        "import functools\nclass A:\n    @functools.lru_cache(maxsize=None)\n    def f(self):\n        return 1\n",
    ],
}
LET_PASS: dict[str, list[str]] = {
    "positional-flags": ["import re\ndef f(x):\n    return re.split('a', x, 1)\n"],
    "mutable-default": [
        "def show(x, names=[]):\n    for name in names:\n        print(name, x)\n",
        "def add(x, to=[]):\n    to = list(to)\n    to.append(x)\n    return to\n",
        "def look(x, _cache={}):\n    _cache[x] = 1\n    return _cache\n",
        "def add(x, to=()):\n    return [*to, x]\n",
    ],
    "default-evaluated-once": [
        "import time\ndef log(clock=time.time):\n    print(clock())\n",
        "import os\ndef f(home=os.path.expanduser('~')):\n    print(home)\n",
    ],
    "redefinition": [
        "def f():\n    global f\n    f = g\n    return f()\ndef g():\n    return 1\n",
        "from typing import overload\n@overload\ndef f(x: int) -> int: ...\n@overload\ndef f(x: str) -> str: ...\ndef f(x):\n    return x\n",
        "class A:\n    @property\n    def x(self):\n        return 1\n    @x.setter\n    def x(self, v):\n        print(v)\n",
        "def f():\n    return 1\n\nf1 = f\n\ndef f():\n    return f1() + 1\n",
        "import sys\nif sys.platform == 'win32':\n    def f():\n        return 1\nelse:\n    def f():\n        return 2\n",
        "def register(x):\n    return x\n@register\ndef f():\n    return 1\ndef f():\n    return 2\n",
        "def _():\n    return 1\ndef _():\n    return 2\n",
    ],
    "special-method-arity": [
        "class A:\n    def __exit__(self, *exc):\n        return None\n    def __len__(self):\n        return 0\n",
        "class A:\n    def __getitem__(self, key, default=None):\n        return default\n",
    ],
    "init-returns-value": [
        "class A:\n    def __init__(self):\n        return None\n",
        "class A:\n    def __init__(self):\n        def f():\n            return 5\n        self.f = f\n",
    ],
    "cached-method": [
        "import functools\n@functools.lru_cache\ndef f(x):\n    return x\n",
        "import functools\nclass A:\n    @staticmethod\n    @functools.lru_cache\n    def f(x):\n        return x\n",
        "import functools\nclass A:\n    def __hash__(self):\n        return 1\n    @functools.lru_cache\n    def f(self):\n        return 1\n",
    ],
    "changed-while-iterated": [
        "def f(d):\n    for k in list(d):\n        del d[k]\n",
        "def f(d):\n    for k in d:\n        if k:\n            del d[k]\n            break\n",
        "def f(d, e):\n    for k in d:\n        e.pop(k)\n",
    ],
    "bare-except": [
        "try:\n    import fast\nexcept:\n    fast = None\n",
        "try:\n    print(1)\nexcept:\n    print(2)\n    raise\n",
        "import sys\ndef f(future):\n    try:\n        print(1)\n    except:\n        future.set(sys.exc_info())\n",
        "def f(box):\n    try:\n        print(1)\n    except BaseException as error:\n        box.append(error)\n",
        "try:\n    print(1)\nexcept KeyboardInterrupt:\n    raise\nexcept BaseException:\n    pass\n",
    ],
    "swallowed-exception": [
        "try:\n    print(1)\nexcept KeyError:\n    pass\n",
        "try:\n    print(1)\nexcept Exception:\n    pass  # printing is only a courtesy\n",
        "try:\n    import fast\nexcept Exception:\n    pass\n",
        "class A:\n    def __del__(self):\n        try:\n            print(1)\n        except Exception:\n            pass\n",
    ],
    "raise-notimplemented": [
        "def f():\n    raise NotImplementedError\n",
        "class A:\n    def __eq__(self, other):\n        return NotImplemented\n",
    ],
    "raise-non-exception": [
        "def f(error):\n    raise error\n",
        "def f():\n    raise ValueError('wrong')\n",
    ],
    "exception-not-raised": [
        "def f():\n    error = ValueError('bad')\n    raise error\n",
        "class Told(Exception):\n    pass\ndef f(x):\n    if x:\n        Told('bad')\n    return x\n",
        "def f(raises):\n    with raises(TypeError):\n        ValueError(1, 2)\n",
    ],
    "finally-swallows": [
        "def f(x):\n    while x:\n        try:\n            print(1)\n        finally:\n            while True:\n                if x:\n                    break\n",
        "def f():\n    try:\n        return 1\n    finally:\n        for x in []:\n            break\n",
        "def f():\n    try:\n        return 1\n    finally:\n        def g():\n            return 2\n        g()\n",
    ],
    "is-literal": [
        "def f(x):\n    return x is None or x is True or x is ...\n",
        "def f(x):\n    return x == 'a'\n",
    ],
    "constant-condition": [
        "def f(x):\n    return x != 1 and x != 2\n",
        "def f(x):\n    return x == 1 or x == 2\n",
        "def f(x):\n    return next(x) == 1 and next(x) == 2\n",
        "def f(x):\n    return x or 'default'\n",
    ],
    "unused-comparison": [
        "def f(x, raises):\n    with raises(TypeError):\n        x < 5\n",
        "def f(x):\n    try:\n        x < 5\n    except TypeError:\n        return False\n    return True\n",
    ],
    "assert-tuple": [
        "def f(x):\n    assert x, 'message'\n    assert (x)\n",
    ],
    "unreachable-code": [
        "for x in []:\n    if x:\n        raise ValueError\n        break\n",
        "def f():\n    return\n    yield\n",
        "def f(x):\n    if x:\n        return 1\n    print(2)\n",
        "def f(x):\n    raise NotImplementedError\n    pass\n",
    ],
    "repeated-condition": [
        "def f(x):\n    if x() == 1:\n        return 1\n    elif x() == 1:\n        return 3\n",
        "def f(x):\n    if x == 1:\n        return 1\n    if x == 1:\n        return 2\n",
        "def f(a, move):\n    if a.x:\n        return 1\n    elif move(a):\n        return 2\n    elif a.x:\n        return 3\n",
    ],
    "identical-branches": [
        "def f(x):\n    return 1 if x else 2\n",
        "def f(x):\n    if x:\n        return 1  # fast\n    else:\n        return 1\n",
        "def f(x):\n    # two branches for the compiler\n    if x:\n        return 1\n    else:\n        return 1\n",
        "def f(x):\n    if x:\n        pass\n    else:\n        pass\n",
    ],
    "invalid-escape": [
        "P = r'\\d+'\nQ = '\\n \\\\d \\x41 \\N{EM DASH}'\nB = rb'\\d'\n",
    ],
    "forgotten-f": [
        "def f(name):\n    raise ValueError('{name}'.format(name=name))\n",
        "def f(name):\n    raise ValueError('no {other}')\n",
        "def f(name):\n    raise LookupError('no {name}', {'name': name})\n",
        "def f(name):\n    print('{{name}}')\n    return name\n",
    ],
    "strip-takes-characters": [
        "def f(x):\n    return x.strip('\\r\\n\\t ').rstrip('/').strip('[]').rstrip('.,;').strip('abc')\n",
        "def f(x):\n    return x.strip('|{}| ')\n",
    ],
    "percent-format": [
        "def f(a):\n    return 5 % (a,)\n",
        "def f(a):\n    return '%s %s' % (a, a) + '%d%%' % a + '%(x)s' % {'x': a} + '%*d' % (3, a)\n",
        "def f(a):\n    return '%s %s' % a + '%s %s' % (*a,) + '%.2f' % a\n",
        "def f(a):\n    return '%(x)s %(y)s' % dict(a) + '%(x)s' % {**a}\n",
    ],
    "brace-format": [
        "def f(a):\n    return '{} {}'.format(a, a) + '{0} {0}'.format(a) + '{x.y[0]}'.format(x=a) + '{{}}'.format()\n",
        "def f(a):\n    return '{} {}'.format(*a) + '{x}'.format(**a) + '{:>{}}'.format(a, 3)\n",
    ],
    "unused-format-value": [
        "def f(a, text):\n    return text.format(a)\n",
        "def f(a):\n    return '{0}{x}'.format(a, x=a) + '{}'.format(*a)\n",
    ],
    "logging-format": [
        "import logging\ndef f(text, a):\n    logging.info(text, a)\n    logging.info('%s', *a)\n",
        "import logging\nlogger = logging.getLogger()\ndef f(a):\n    logger.info('%s of %s', a, a)\n    logger.info('%(x)s', {'x': a})\n    logger.info('100%')\n",
        "def f(logger, a):\n    logger.info('{} of', a)\n    logger.info('event', a)\n",
    ],
    "duplicate-key": [
        "def f(k):\n    return {k: 1, k: 2}\n",
    ],
    "unused-import": [
        "import typing as t\nX = set()  # type: t.Set[str]\nclass A: ...\n",
        "# Expose what others test with\nfrom os import path\nclass A: ...\n",
        "import os\n__all__: list[str] = ['os']\nclass A: ...\n",
        "import os\n__all__ = []\n__all__ += ['os']\nclass A: ...\n",
        "import os\n__all__ = []\n__all__.append('os')\nclass A: ...\n",
        "import os\nclass A:\n    x = None  # type: os.PathLike\n",
        "import os\ndef f():\n    '''Do.\n\n    >>> os.getcwd()\n    '''\n",
        "import os\n__all__ = ['os']\ndef f():\n    return 1\n",
        "try:\n    import fast\nexcept ImportError:\n    fast = None\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from os import PathLike\ndef f(x: 'PathLike[str]'):\n    return x\n",
        "from os import path as path\ndef f():\n    return 1\n",
        "import readline  # noqa: F401\ndef f():\n    return 1\n",
        "from .core import thing  # re-exported\ndef f():\n    return 1\n",
        "from __future__ import annotations\nimport xml.dom\ndef f():\n    return 1\n",
        "from ._private import Public\ndef f():\n    return 1\n",
    ],
    "removed-from-python": [
        "try:\n    import imp\nexcept ImportError:\n    imp = None\n",
        "import sys\nif sys.version_info < (3, 12):\n    import distutils\n    print(distutils)\n",
        "import collections\nprint(collections.OrderedDict, collections.abc.Mapping)\n",
    ],
    "undefined-name": [
        "def f():\n    try:\n        return unicode('x')\n    except NameError:\n        return 'x'\n",
        "def f():\n    try:\n        return unicode('x')\n    except:\n        raise\n",
        "def f(x):\n    def g():\n        return x + later\n    return g, [later for later in x]\nlater = 1\n",
        "def f():\n    return missing\ndef g(missing):\n    return missing\nmissing = 1\n",
        "def f(x):\n    return [later for later in x], later\nlater = 1\n",
        "def f(undefined_thing):\n    return undefined_thing\n",
        "from __future__ import annotations\ndef f(x: Missing) -> Missing:\n    y: Missing = x\n    return y\n",
        "import sys\nif sys.version_info < (3,):\n    text = unicode\n",
        "try:\n    thing\nexcept:\n    thing = None\n",
        "def f(x):\n    match x:\n        case {'a': y, **rest} | [y, *rest]:\n            return y, rest\n",
        "def f():\n    return later\n\nlater = 1\n",
        "def f():\n    global made\n    made = 1\ndef g():\n    return made\n",
        "try:\n    unicode\nexcept NameError:\n    unicode = str\n",
        "from os import *\nprint(getcwd())\n",
        "def f():\n    globals()['x'] = 1\n    return x\n",
        "class A:\n    y = 1\n    def f(self):\n        return __class__\n",
        "def f(x):\n    return [y for y in x if y] + [lambda z: z + len(x)]\n",
    ],
    "undefined-export": [
        "__all__ = ['f']\nglobal f\ndef g():\n    global f\n    f = 1\n",
        "__all__ = ['f']\ndef f():\n    return 1\n",
        "__all__ = ['f']\ndef __getattr__(name):\n    return name\n",
    ],
    "unused-variable": [
        "def demo():\n    x = 1\n",
        "if __name__ == '__main__':\n    def f():\n        x = 1\n",
        "def f(self):\n    self.x = x = 1\n",
        "def f(self):\n    x = self.x = 1\n",
        "def f(x):\n    y = x + 1\n    def g():\n        return y\n    return g\n",
        "def f(x):\n    _y = x\n    a, b = x\n    for c in x:\n        print(1)\n    return locals\n",
        "def f(x):\n    y = x\n    return locals()\n",
        "def f():\n    global made\n    made = 1\n",
    ],
    "self-assignment": [
        "import os\nos = os\nclass A:\n    os = os\n",
        "def f(x):\n    if x:\n        x = 1\n    else:\n        x = x\n    return x\n",
        "def f(x, y):\n    x = y\n    return x\n",
    ],
    "missing-await": [
        "async def go():\n    return 1\nasync def main(is_sync):\n    if is_sync:\n        go()  # type: ignore[unused-coroutine]\n",
        "async def go():\n    return 1\n\nasync def main():\n    await go()\n    x = go()\n    return x\n",
        "def wrap(f):\n    return f\n@wrap\nasync def go():\n    return 1\ndef main():\n    go()\n",
        "async def go():\n    return 1\ndef main(go):\n    go()\n",
    ],
    "dangling-task": [
        "import asyncio\nasync def main(x):\n    task = asyncio.create_task(x())\n    await task\n",
    ],
    "blocking-call-in-async": [
        "import time\nasync def main(run):\n    def work():\n        time.sleep(1)\n    await run(work)\n",
        "import time\ndef main():\n    time.sleep(1)\nasync def other():\n    return 1\n",
    ],
    "request-without-timeout": [
        "import requests\ndef f(u, **options):\n    return requests.get(u, timeout=5), requests.get(u, **options)\n",
    ],
    "shell-injection": [
        "import os\ndef f(x):\n    os.system(x)\n",
        "import subprocess\ndef f(x):\n    subprocess.run(['ls', x])\n    subprocess.run('ls -l', shell=True)\n",
        "import os, shlex\ndef f(x):\n    os.system('ls ' + shlex.quote(x))\n",
    ],
    "unsafe-yaml": [
        "import yaml\ndef f(x, OurLoader):\n    return yaml.load(x, Loader=OurLoader)\n",
        "import yaml\ndef f(x, **options):\n    return yaml.load(x, **options)\n",
        "import yaml\ndef f(x):\n    return yaml.safe_load(x), yaml.load(x, Loader=yaml.SafeLoader)\n",
        "def f(yaml, x):\n    return yaml.load(x)\n",
    ],
    "unverified-tls": [
        "import requests\ndef f(u):\n    return requests.get(u, verify='/ca.pem', timeout=1)\n",
    ],
    "predictable-temporary-name": [
        "import tempfile\ndef f():\n    return tempfile.mkstemp()\n",
    ],
    "hidden-text-direction": [
        "FORMAT = '\u0633\u0627\u0639\u062a \u200f G:i'\n",
    ],
    "wrong-all": [
        "import a\n__all__ = (\n    *a.__all__,\n)\n",
    ],
    "nan-comparison": [
        "import numpy\ndef f(x):\n    return x is numpy.nan\n",
    ],
    "not-in-slots": [
        "class A:\n    __slots__ = ('x',)\n    def __init__(self):\n        self.y = 1\n    @setter\n    def y(self, y):\n        return y\n",
        "class A(metaclass=M):\n    __slots__ = ('x',)\n    def __init__(self):\n        self.y = 1\n",
    ],
    "token-in-source": [
        "KEY = 'AKIAIOSFODNN7EXAMPLE'\n",
        "KEY = 'AKIA'\n",
    ],
    "leftover-breakpoint": [
        "def start_debugger():\n    breakpoint()\n",
        "def f(options):\n    if options.pdb:\n        import pdb\n        pdb.set_trace()\n",
    ],
}


def _cases(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(rule, code) for rule, codes in table.items() for code in codes]


@pytest.mark.parametrize(("rule", "code"), _cases(FOUND))
def test_a_rule_finds_what_it_is_for(rule, code):
    assert rule in rules_in(code)


@pytest.mark.parametrize(("rule", "code"), _cases(LET_PASS))
def test_a_rule_lets_the_near_miss_pass(rule, code):
    assert rule not in rules_in(code)


def test_every_rule_of_our_own_and_every_choice_among_ruffs_has_an_example_and_a_near_miss():
    elsewhere = {"syntax-error", "data-syntax"}  # rules for files that are no Python: test_bug_pass
    own = {rule.name for rule in RULES.values() if rule.group == "bugs" and not rule.ruff} - elsewhere
    assert set(FOUND) >= own | (set(_KEEP) - {"stale-parameter"})
    assert set(LET_PASS) >= own | (set(_KEEP) - {"stale-parameter"})


def test_ruff_has_every_rule_that_is_asked_of_it():
    known = subprocess.run([require_ruff(), "rule", "--all", "--output-format=json"], capture_output=True, check=True)
    names = {one["code"] for one in json.loads(known.stdout)}
    assert set(RULES_OF_RUFF) <= names


def test_a_finding_says_what_why_where_and_the_fix():
    (finding,) = findings_in("""
        class Box:
            def put(self, thing, things=[]):
                things.append(thing)
        """)
    assert (finding.rule, finding.severity, finding.confidence) == ("mutable-default", "warning", "high")
    assert (finding.line, finding.column, finding.symbol) == (2, 33, "Box.put")
    assert finding.message.startswith(
        "Do not use mutable data structures for argument defaults (`[]`): the default is made once"
    )
    assert finding.fix == "Default to None and make the object inside the function."
    assert finding.subject == "[]"


def test_columns_count_characters_not_bytes():
    (finding,) = findings_in("def f(x):\n    return 'ääää', x is 'a'\n")
    assert finding.column == 20


@pytest.mark.parametrize(
    "comment",
    ["# noqa", "# noqa: F632", "# NOQA:F401,F632", "# pylint: disable=literal-comparison", "# noqa: is-literal"],
)
def test_a_comment_that_silences_another_linter_silences_the_same_rule_here(comment):
    assert "is-literal" not in rules_in(f"def f(x):\n    return x is 'a'  {comment}\n")


@pytest.mark.parametrize("comment", ["# noqa: F401", "# pylint: disable=bare-except", "# a remark"])
def test_a_comment_about_another_rule_silences_nothing(comment):
    assert "is-literal" in rules_in(f"def f(x):\n    return x is 'a'  {comment}\n")


def test_noqa_at_the_end_of_a_long_statement_counts_for_its_first_line():
    assert "unused-import" not in rules_in("from os import (\n    path,\n    sep,\n)  # noqa: F401\nclass A: ...\n")


def test_a_file_can_be_silenced_as_a_whole():
    code = "# flake8: noqa\nimport os\nclass A: ...\n"
    assert rules_in(code) == set()
    assert rules_in(code.replace(": noqa", ": noqa: E501")) == {"unused-import"}


def test_tests_are_judged_by_the_rules_that_lose_a_test_only():
    code = "def test_a(x):\n    assert x is 'a'\n\ndef test_a(x):\n    assert (x, 'never fails')\n"
    assert rules_in(code, "tests/test_sample.py") == {"redefinition", "assert-tuple"}


def test_a_name_that_a_test_expects_to_be_missing_is_no_finding():
    code = "def test_it(raises):\n    with raises(NameError):\n        missing()\n"
    assert rules_in(code, "tests/test_a.py") == set()
    assert rules_in("def test_it():\n    missing()\n", "tests/test_a.py") == {"undefined-name"}


def test_findings_that_are_no_errors_are_told_once_a_file_with_their_lines():
    (finding,) = findings_in("import os\nimport sys\nimport re\ndef f(): ...\n")
    assert finding.line == 1
    assert finding.message.startswith("`os` imported but unused (also in lines 2, 3):")
    (finding,) = findings_in("".join(f"import a{n}\n" for n in range(9)) + "def f(): ...\n")
    assert "(also in lines 2, 3, 4, 5, 6 and 3 more):" in finding.message


def test_identical_findings_are_told_once():
    code = "def f(x):\n    return x is 'a' is 'b'\n"
    assert len([one for one in findings_in(code) if one.rule == "is-literal"]) == 1
