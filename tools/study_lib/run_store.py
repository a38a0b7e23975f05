"""Results of runs that take long, kept in a JSON file: what is there is not run again."""

import json
import os
import sys
import time
from pathlib import Path


class RunStore:
    """{key: result} in `path`, written after every run. A store belongs to one `setting` (JSON):
    with another one its results would be of something else, and SystemExit names both."""

    def __init__(self, path, setting):
        self.path = Path(path)
        self.results = {}
        setting = json.loads(json.dumps(setting))
        if self.path.exists():
            found = json.loads(self.path.read_text())
            if found["setting"] != setting:
                raise SystemExit(f"{self.path} has results of {found['setting']}, this is "
                                 f"{setting}; name another file or delete this one")
            self.results = found["results"]
        self.setting = setting

    def fill(self, runs):
        """Runs what is missing of {key: function that returns JSON}, in order, and says on standard
        error how far it is and how long the rest takes."""
        missing = {key: run for key, run in runs.items() if key not in self.results}
        begin_s = time.monotonic()
        for number, (key, run) in enumerate(missing.items(), 1):
            self.results[key] = run()
            self._write()
            passed_s = time.monotonic() - begin_s
            left_s = passed_s / number * (len(missing) - number)
            print(f"{number} of {len(missing)}, {passed_s:.0f} s, about {left_s:.0f} s left: {key}",
                  file=sys.stderr, flush=True)

    def add(self, results):
        """Results of the same setting that come from elsewhere, for keys that are missing."""
        self.results = {**results, **self.results}

    def drop(self, is_bad):
        """Results that are to be found again."""
        self.results = {key: run for key, run in self.results.items() if not is_bad(run)}

    def _write(self):
        write_results(self.path, self.setting, self.results)


def write_results(path, setting, results):
    """What a RunStore reads: a line for each result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(result)}"
                       for key, result in results.items())
    fresh = path.with_suffix(".new")
    fresh.write_text(f'{{"setting": {json.dumps(setting)},\n"results": {{\n{lines}\n}}}}\n')
    os.replace(fresh, path)
