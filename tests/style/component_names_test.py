#!/usr/bin/env python3
"""Nobody outside a component asks it for its name.

Comparisons with the name of a registered layer, strategy or cost method, or of a distribution of data, belong beside the
component: others ask for its traits or capabilities (nn/layer_traits.h, parallel/strategy_traits.h, capabilities.h), or
compare the enum that an option became (base/enum_option.h).
"""
import pathlib
import re
import sys

REGISTRATION = re.compile(r'REGISTER_COMPONENT\((?:\w+::)*(LayerRegistry|StrategyRegistry|CostMethodRegistry), "([^"]+)"')
DISTRIBUTIONS = {'pool', 'shares', 'shards'}  # options of src/data
# Where components live, and what they may compare.
HOMES = ('src/nn/layers/', 'src/parallel/strategies/', 'src/data/')
# Words that are layers' names too, in options that have nothing to do with layers.
OTHER_MEANINGS = {'src/parallel/rate_scaling.cc': {'linear'}}


def names_of(root):
    names = set(DISTRIBUTIONS)
    for path in (root / 'src').rglob('*.cc'):
        names.update(name for _, name in REGISTRATION.findall(path.read_text(encoding='utf-8')))
    return names


def problems_in(root):
    names = names_of(root)
    compared = re.compile(r'[!=]=\s*"([^"]+)"|"([^"]+)"\s*[!=]=')
    for top in ('src', 'apps', 'include'):
        for path in sorted((root / top).rglob('*')):
            where = path.relative_to(root).as_posix()
            if path.suffix not in ('.cc', '.h') or where.startswith(HOMES):
                continue
            for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), 1):
                for found in compared.findall(line):
                    name = found[0] or found[1]
                    if name in names and name not in OTHER_MEANINGS.get(where, ()):
                        yield f'{where}:{number}: asks for the name "{name}"'


def main():
    found = list(problems_in(pathlib.Path(sys.argv[1])))
    for problem in found:
        print(problem)
    print(f'{len(found)} problems')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
