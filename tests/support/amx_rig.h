// Tile instructions for tests of the engine: the processor's own, or the emulator's.
#ifndef AMX_RIG_H
#define AMX_RIG_H

#include "amx_emulator.h"
#include "backend/cpu/kernel/isa.h"

#include <stdio.h>

enum amx_source { AMX_NOWHERE, AMX_NATIVE, AMX_EMULATED };

// At the start of each test: cmocka catches SIGILL itself from there on. Prints which it is.
static inline enum amx_source amx_rig_provide(void)
{
    static enum amx_source source;
    if (source == AMX_NOWHERE && eng_isa_has(ENG_ISA_AMX)) {
        source = AMX_NATIVE;
    } else if (source == AMX_NOWHERE && eng_cpu_emulate_tiles()) {
        source = AMX_EMULATED;
    }
    if (source == AMX_EMULATED && !amx_emulator_install()) {
        source = AMX_NOWHERE;
    }
    printf("tiles: %s\n", source == AMX_NATIVE ? "of this processor"
                          : source == AMX_EMULATED
                              ? "emulated"
                              : "none; nor bfloat16 products for what is around");
    return source;
}

#endif
