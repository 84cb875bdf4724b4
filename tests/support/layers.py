"""scripts/layers: the promises of the layout, checked in the sources."""
import pathlib
import re
import sys

LAYERS = ['base', 'codec', 'tokens', 'config', 'bus', 'model', 'runtime']
STAGES = ['collector', 'mechanisms', 'fold', 'sinks', 'feeders']
CPLUSPLUS = {'common/codec/json_index.cc'}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
BREACHES = []


def breach(sentence):
    BREACHES.append(sentence)


def sources(*roots):
    return sorted(p for root in roots for p in pathlib.Path(root).rglob('*') if p.suffix in ('.c', '.h', '.cc', '.cpp', '.cxx', '.def'))


def folder_of(include):
    """common/LAYER or daemons/STAGE or include/ctxpipe of an include as it is written, relative to the three roots."""
    first = include.split('/')[0]
    if first == 'ctxpipe':
        return 'ctxpipe' if pathlib.Path('include', include).exists() else 'command'
    return first


def check_common():
    for path in sources('common'):
        layer = path.parts[1]
        if layer not in LAYERS:
            breach(f'{path}: common/ has the layers {", ".join(LAYERS)}; {layer} is none of them')
            continue
        allowed = set(LAYERS[:LAYERS.index(layer) + 1]) | {'ctxpipe'}
        for include in INCLUDE.findall(path.read_text()):
            if '/' in include and folder_of(include) not in allowed:
                breach(f'{path}: layer {layer} includes "{include}", which stands above it')


def check_public():
    for path in sources('include'):
        for include in INCLUDE.findall(path.read_text()):
            if folder_of(include) != 'ctxpipe':
                breach(f'{path}: the contract includes "{include}"; it may include ctxpipe/ alone')


def check_stages():
    for path in sources('daemons'):
        stage = path.parts[1]
        allowed = set(LAYERS) | {'ctxpipe', stage}
        if stage == 'ctxpipe':
            allowed |= {'command', 'feeders'}
        for include in INCLUDE.findall(path.read_text()):
            if '/' in include and folder_of(include) not in allowed:
                breach(f'{path}: includes "{include}"; a stage includes no other stage')


def check_cplusplus():
    for path in sources('common', 'daemons', 'include', 'agents'):
        if path.suffix in ('.cc', '.cpp', '.cxx') and str(path) not in CPLUSPLUS and path.parts[:2] != ('daemons', 'feeders'):
            breach(f'{path}: C++ belongs in {" and ".join(sorted(CPLUSPLUS))} and the JSON part of the feeders alone')


def registry():
    """Names of the stages that the build has: every file that defines operations names its daemon in them."""
    names = {}
    for path in sources('daemons'):
        for match in re.finditer(r'const struct ctxp_stage_ops (\w+) = \{(.*?)\n?\};', path.read_text(), re.S):
            name = re.search(r'\.name = "([^"]+)"', match[2])
            if name:
                names[name[1]] = path
            else:
                breach(f'{path}: {match[1]} has no .name')
    return names


def topology_daemons():
    found = {}
    for path in sorted(pathlib.Path('config').glob('*.yaml')):
        for daemon in re.findall(r'\bdaemon:\s*([\w-]+)', path.read_text()):
            found.setdefault(daemon, path)
    return found


def readme_rows():
    """Daemons with a row of their own: | `name` | ... in the README's table of stages."""
    section = re.search(r'^## Stages$(.*?)^## ', pathlib.Path('README.md').read_text(), re.M | re.S)
    return set(re.findall(r'^\| `([a-z-]+)` \|', section[1], re.M)) if section else set()


def check_registry():
    stages, nodes, rows = registry(), topology_daemons(), readme_rows()
    for name, path in stages.items():
        if name not in nodes:
            breach(f'{path}: stage {name} is a node of no topology in config/; add it to one')
        if name not in rows:
            breach(f'{path}: stage {name} has no row in the README\'s table of stages')
    for name, path in nodes.items():
        if name not in stages:
            breach(f'{path}: daemon {name} is no stage of this build')
    for name in rows - set(stages):
        breach(f'README.md: {name} has a row in the table of stages and is no stage of this build')


def check_globals():
    """A stage exports its operations alone."""
    for path in sources('daemons/mechanisms', 'daemons/sinks'):
        if path.suffix == '.c':
            exported = re.findall(r'^const struct ctxp_stage_ops (\w+) = ', path.read_text(), re.M)
            if len(exported) > 1:
                breach(f'{path}: exports {" and ".join(exported)}; one stage, one file')


def main():
    for check in (check_public, check_common, check_stages, check_cplusplus, check_registry, check_globals):
        check()
    for sentence in BREACHES:
        print(sentence)
    sys.exit(1 if BREACHES else 0)


main()
