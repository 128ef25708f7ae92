#!/usr/bin/env python3
"""No name that is local to a source file hides one of its component's headers.

Neighbouring sources may be compiled as one (ANTIPHON_JUMBO): a constant, a type or a function without parameters in the
unnamed namespace of one file is then found by the next file, in the place of the header's that this one means, and
nobody says so. Functions with parameters are told apart by them.

Usage: hidden_names_test.py SOURCE-TREE
"""
import pathlib
import re
import sys

TYPE = re.compile(r'^(?:class|struct|enum class|using) (\w+)\b(?! *;|::)')
CONSTANT = re.compile(r'^(?:inline |static )*(?:constexpr|const)\b[^(=]*?\b(k[A-Z]\w*)')
FUNCTION = re.compile(r'^[A-Za-z_][^(=]*?\b(\w+)\(\) ?(?:const )?[{;]')


def names_in(text, local):
    """Names at the level of a namespace: those of unnamed ones, or the others."""
    unnamed = False
    for line in text.splitlines():
        if line == 'namespace {':
            unnamed = True
        elif line == '}  // namespace':
            unnamed = False
        elif unnamed == local:
            for pattern in (TYPE, CONSTANT, FUNCTION):
                if found := pattern.match(line):
                    yield found.group(1)
                    break


def namespace_of(text):
    found = re.search(r'^namespace (antiphon[\w:]*) \{', text, re.M)
    return found.group(1) if found else ''


def problems_in(root):
    for folder in sorted([*(root / 'src').iterdir(), *(root / 'tests').iterdir()]):
        if not folder.is_dir():
            continue
        homes = {folder, root / 'src' / folder.name}
        names = {}
        for header in (h for home in homes for h in home.rglob('*.h')):
            text = header.read_text(encoding='utf-8')
            for name in names_in(text, local=False):
                names[namespace_of(text), name] = header.relative_to(root).as_posix()
        for source in sorted(folder.rglob('*.cc')):
            text = source.read_text(encoding='utf-8')
            if 'foreach_target.h' in text:  # compiled alone
                continue
            for name in names_in(text, local=True):
                if header := names.get((namespace_of(text), name)):
                    yield f'{source.relative_to(root)}: its own "{name}" hides that of {header}'


def main():
    problems = list(problems_in(pathlib.Path(sys.argv[1])))
    print('\n'.join(problems))
    print(f'{len(problems)} problems')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
