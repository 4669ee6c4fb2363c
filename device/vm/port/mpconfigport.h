// How MicroPython is configured for Walle. Read by every MicroPython source file.
//
// Two builds use it. The device build loads .mpy bytecode and has no compiler. The compiler build
// (DEV_VM_COMPILER=1, for the build tool) turns source into .mpy and runs nothing. In both, all
// state is in `mp_state_ctx`, which is thread-local: anything that would put mutable data
// elsewhere, reach a file, or take an address inside the state at compile time is switched off
// here.
#ifndef DEV_VM_MPCONFIGPORT_H
#define DEV_VM_MPCONFIGPORT_H

#include "vm_alloc.h"

#include <alloca.h>
#include <stdint.h>
#include <string.h>

#ifndef DEV_VM_COMPILER
#define DEV_VM_COMPILER 0
#endif

#define MICROPY_CONFIG_ROM_LEVEL (MICROPY_CONFIG_ROM_LEVEL_EXTRA_FEATURES)

typedef intptr_t mp_int_t;
typedef uintptr_t mp_uint_t;
typedef long mp_off_t;
#define MP_STATE_PORT MP_STATE_VM

// Code in and out.
#define MICROPY_ENABLE_COMPILER            (DEV_VM_COMPILER)
#define MICROPY_PERSISTENT_CODE_SAVE       (DEV_VM_COMPILER)
#define MICROPY_PERSISTENT_CODE_LOAD       (!DEV_VM_COMPILER)
#define MICROPY_ENABLE_EXTERNAL_IMPORT     (!DEV_VM_COMPILER)
#define MICROPY_HAS_FILE_READER            (!DEV_VM_COMPILER) // vm_import.c reads the job's modules
#define MICROPY_PY_BUILTINS_EVAL_EXEC      (0)
#define MICROPY_PY_BUILTINS_COMPILE        (0)
#define MICROPY_PY_BUILTINS_EXECFILE       (0)
#define MICROPY_COMP_ALLOW_TOP_LEVEL_AWAIT (0)
#define MICROPY_ALLOC_PATH_MAX             (128)
// Bytecode, names and constant strings are used where they lie: the job's bytes are immutable and
// outlive the run. Only the reader's shortcut is wanted, not a file system.
#define MICROPY_VFS_ROM       (!DEV_VM_COMPILER)
#define MICROPY_VFS_ROM_IOCTL (0)

// The parser's stacks grow by so much: with the few that MicroPython takes, source that is nested
// deep is copied over and over.
#define MICROPY_ALLOC_PARSE_RULE_INC   (1024)
#define MICROPY_ALLOC_PARSE_RESULT_INC (1024)

// Memory and control flow.
#define MICROPY_ENABLE_GC                      (1)
#define MICROPY_ENABLE_FINALISER               (0)
#define MICROPY_GC_CONSERVATIVE_CLEAR          (1) // no run can see what an earlier one left
#define MICROPY_STACK_CHECK                    (1)
#define MICROPY_STACK_CHECK_MARGIN             (0)
#define MICROPY_ENABLE_EMERGENCY_EXCEPTION_BUF (1)
#define MICROPY_EMERGENCY_EXCEPTION_BUF_SIZE   (256)
#define MICROPY_OPT_COMPUTED_GOTO              (1)
#define MICROPY_ENABLE_SCHEDULER               (0)
#define MICROPY_KBD_EXCEPTION                  (0)
#define MICROPY_ENABLE_VM_ABORT                (0) // vm_budget.c has its own
#define MICROPY_ENABLE_SOURCE_LINE             (1)
#define MICROPY_ERROR_REPORTING                (MICROPY_ERROR_REPORTING_NORMAL)
#define MICROPY_WARNINGS                       (0)
#define MICROPY_MODULE_BUILTIN_INIT            (0)
#define MICROPY_MODULE_ATTR_DELEGATION         (1)
#define MICROPY_HELPER_REPL                    (0)
#define MICROPY_USE_INTERNAL_PRINTF            (0)
// The hand-written jumps are unknown to the sanitizers; setjmp is not.
#ifdef DEV_VM_SANITIZED
#define MICROPY_NLR_SETJMP (1)
#endif

// Numbers.
#define MICROPY_LONGINT_IMPL (MICROPY_LONGINT_IMPL_MPZ)
#define MICROPY_FLOAT_IMPL   (MICROPY_FLOAT_IMPL_DOUBLE)

// What scripts may import: array, binascii, builtins, collections, errno, gc, heapq, io (memory
// streams only), json, math, re, struct, sys (a small part), and walle.
#define MICROPY_PY_GC                     (1)
#define MICROPY_PY_IO                     (1)
#define MICROPY_PY_IO_IOBASE              (0)
#define MICROPY_PY_JSON                   (1)
#define MICROPY_PY_RE                     (1)
#define MICROPY_PY_RE_SUB                 (1)
#define MICROPY_PY_HEAPQ                  (1)
#define MICROPY_PY_BINASCII               (1)
#define MICROPY_PY_BINASCII_CRC32         (0)
#define MICROPY_PY_SYS                    (1)
#define MICROPY_PY_SYS_PATH               (1)
#define MICROPY_PY_SYS_ATTR_DELEGATION    (1)
#define MICROPY_PY_SYS_PATH_ARGV_DEFAULTS (1)
#define MICROPY_PY_SYS_ARGV               (0)
#define MICROPY_PY_SYS_MODULES            (0)
#define MICROPY_PY_SYS_PS1_PS2            (0)
#define MICROPY_PY_SYS_STDFILES           (0)
#define MICROPY_PY_SYS_STDIO_BUFFER       (0)
#define MICROPY_PY_SYS_PLATFORM           "walle"
#define MICROPY_PY___FILE__               (1)
#define MICROPY_PY_BUILTINS_HELP          (0)
#define MICROPY_PY_BUILTINS_INPUT         (0)
#define MICROPY_PY_MICROPYTHON            (0)
#define MICROPY_PY_MICROPYTHON_MEM_INFO   (0)
#define MICROPY_PY_MICROPYTHON_RINGIO     (0)
#define MICROPY_PY_CMATH                  (0)
#define MICROPY_PY_UCTYPES                (0)
#define MICROPY_PY_SELECT                 (0)
#define MICROPY_PY_TIME                   (0)
#define MICROPY_PY_ASYNCIO                (0)
#define MICROPY_PY_DEFLATE                (0)
#define MICROPY_PY_OS                     (0)
#define MICROPY_PY_HASHLIB                (0)
#define MICROPY_PY_RANDOM                 (0)
#define MICROPY_PY_FRAMEBUF               (0)
#define MICROPY_PY_PLATFORM               (0)
#define MICROPY_PY_MACHINE                (0)
#define MICROPY_VFS                       (0)

#define MICROPY_HW_BOARD_NAME "walle"
#define MICROPY_HW_MCU_NAME   "device"

void mp_cstack_check(void); // also called from places the patches add (patch_sources.py)

#if !DEV_VM_COMPILER
#include "vm_hooks.h"
#define MICROPY_VM_HOOK_LOOP                                                                       \
    if (__builtin_expect(--dev_vm_units_left == 0, 0)) {                                           \
        code_state->ip = ip;                                                                       \
        dev_vm_budget_spent(code_state);                                                           \
    }
// Where an exception comes to a function, before its handlers: a run over its budget ends here.
#define MICROPY_VM_HOOK_RAISE                                                                      \
    if (__builtin_expect(--dev_vm_units_left == 0, 0)) {                                           \
        dev_vm_budget_spent(code_state);                                                           \
    }
// An instruction that is none: where an image is to be made, the one that belongs there is put back
// and done.
#define MICROPY_VM_HOOK_UNKNOWN                                                                    \
    code_state->sp = sp;                                                                           \
    code_state->exc_sp_idx = MP_CODE_STATE_EXC_SP_IDX_FROM_PTR(exc_stack, exc_sp);                 \
    if (dev_vm_image_halt(code_state)) {                                                           \
        ip = code_state->ip;                                                                       \
        DISPATCH();                                                                                \
    }
#define MICROPY_GC_HOOK_LOOP(i)                                                                    \
    if (__builtin_expect(((i)&4095) == 4095, 0)) {                                                 \
        dev_vm_gc_step();                                                                          \
    }
// A block that holds an array and its elements, by what no other block begins with: the type of
// arrays, and then its own address, which no script can put anywhere.
#define DEV_VM_IS_LEAF(of) ((of)[0] == (const void *)&dev_np_array_type && (of)[1] == (void *)(of))
// What is not cleared holds no zeros by chance where programs are tested.
#ifdef NDEBUG
#define DEV_VM_SOILED(ptr, size)
#else
#define DEV_VM_SOILED(ptr, size) __builtin_memset((ptr), 0xa5, (size));
#endif
// Every block of bytes that MicroPython copies, compares or fills is paid for.
#define memcpy  dev_vm_memcpy
#define memmove dev_vm_memmove
#define memset  dev_vm_memset
#define memcmp  dev_vm_memcmp
#else
#define MICROPY_VM_HOOK_RAISE
#define MICROPY_VM_HOOK_UNKNOWN
#define DEV_VM_BOUNDS_CHECK()
#define DEV_VM_IS_LEAF(of) ((void)(of), false)
#define DEV_VM_SOILED(ptr, size)
#define dev_vm_work(units)        ((void)0)
#define dev_vm_step()             ((void)0)
#define dev_vm_tick(ticks)        ((void)(ticks), 1)
#define dev_vm_quiet(units)       ((void)0)
#define dev_vm_copied_quiet(size) ((void)0)
#define dev_vm_place(address)     (address)
#define DEV_VM_TEXT_PER_UNIT      64
#define DEV_VM_COPY_PER_UNIT      1024
#endif

#endif
