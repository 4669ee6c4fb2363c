#!/usr/bin/env python3
"""The script VM keeps no state that two threads share: its archive has no writable data but thread-local.

    vm_shared_state.py --lib libwalle-vm.a

Constant tables that hold addresses (.data.rel.ro) become read-only when the program starts and are fine.
"""
import argparse
import re
import subprocess
import sys

WRITABLE = re.compile(r"^\.(data|bss)(?!\.rel\.ro)(\.|$)|^\*COM\*$")


def findings(table):
    """Objects of non-zero size in writable sections, from the output of objdump --syms."""
    member = ""
    found = []
    for line in table.splitlines():
        if re.match(r"^\S+:\s+file format", line):
            member = line.split(":")[0]
            continue
        match = re.match(r"^[0-9a-f]+ (.{7}) (\S+)\s+([0-9a-f]+)\s+(\S.*)$", line)
        if match and WRITABLE.match(match.group(2)) and int(match.group(3), 16) > 0:
            found.append(f"{member}: {match.group(4).split()[-1]} in {match.group(2)}, {int(match.group(3), 16)} bytes")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lib", required=True)
    args = parser.parse_args()
    sample = "x.o:     file format elf64\n0000000000000000 g     O .bss\t0000000000000008 counter\n"
    if len(findings(sample)) != 1 or findings(sample.replace(".bss", ".tbss")):
        sys.exit("vm_shared_state: the check itself does not work")
    table = subprocess.run(["objdump", "--syms", args.lib], check=True, stdout=subprocess.PIPE, text=True).stdout
    if "mp_state_ctx" not in table:
        sys.exit(f"{args.lib}: not the script VM's archive")
    found = findings(table)
    for line in found:
        print(f"shared state: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
