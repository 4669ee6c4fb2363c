#!/usr/bin/env python3
"""The script VM keeps no state that two threads share: its archive has no writable data but thread-local. And it does not
bring the tensor engine with it: models are run through a table the host gives (device/model/model_port.h).

    vm_shared_state.py --lib libwalle-device-vm.a

Constant tables that hold addresses (.data.rel.ro) become read-only when the program starts and are fine. Of the engine only
what describes tensors is used (engine/model/dtype.c).
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


def engine_uses(table):
    """Undefined symbols that would link more of the engine, or the store of models."""
    undefined = re.findall(r"\*UND\*\s+[0-9a-f]+\s+(\S+)$", table, re.M)
    return sorted({name for name in undefined if re.match(r"(eng|dev_model)_", name)
                   and not re.match(r"eng_(dtype|desc|f16|bf16)_", name)})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lib", required=True)
    args = parser.parse_args()
    sample = "x.o:     file format elf64\n0000000000000000 g     O .bss\t0000000000000008 counter\n"
    if len(findings(sample)) != 1 or findings(sample.replace(".bss", ".tbss")):
        sys.exit("vm_shared_state: the check itself does not work")
    sample = "0000000000000000         *UND*\t0000000000000000 eng_desc_bytes\n0000000000000000         *UND*\t0000000000000000 eng_session_run\n"
    if engine_uses(sample) != ["eng_session_run"]:
        sys.exit("vm_shared_state: the check itself does not work")
    table = subprocess.run(["objdump", "--syms", args.lib], check=True, stdout=subprocess.PIPE, text=True).stdout
    if "mp_state_ctx" not in table:
        sys.exit(f"{args.lib}: not the script VM's archive")
    found = findings(table)
    for line in found:
        print(f"shared state: {line}")
    uses = engine_uses(table)
    for name in uses:
        print(f"engine: {name} is used: go through the model port")
    return 1 if found or uses else 0


if __name__ == "__main__":
    sys.exit(main())
