"""Changes of MicroPython's files that make scripts quicker and change nothing that they see: not the order of a table, not
where an object lies, not what is counted.

Read by patch_sources.py, after patch_bounds.py. One entry a file: text found, text put in its place.
"""

# What reads several bytes at once takes the first for the lowest; a machine that does otherwise is refused.
ORDER = (
    "#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__\n#error \"the script VM reads tables by the word\"\n#endif\n"
)

# An operator's own place in the interpreter's loop; on to that of all operators where the two are not small or the
# result is not.
OWN_ENTRY = (
    "                entry_DEV_{0}: {{\n"
    "                    mp_int_t value;\n"
    "                    if (mp_obj_is_small_int(sp[0]) && mp_obj_is_small_int(sp[-1]) && !{1}) {{\n"
    "                        sp[-1] = {2};\n"
    "                        sp--;\n"
    "                        DISPATCH();\n"
    "                    }}\n"
    "                    goto ENTRY(MP_BC_BINARY_OP_MULTI);\n"
    "                }}\n\n"
)

SPEED = {
    # Where the search for so many blocks ended: "no place for `blocks` of them below byte `index` of the table".
    "py/mpstate.h": [
        (
            "typedef struct _mp_state_mem_area_t {\n",
            "#define MP_GC_FITS 22 // by the logarithm of their number\n"
            "struct _mp_gc_fit {\n    uint32_t blocks; // 0: nothing is known\n    uint32_t index;\n};\n"
            "typedef struct _mp_state_mem_area_t {\n",
        ),
        (
            "    size_t gc_last_used_block; // The block ID of the highest block allocated in the area\n",
            "    size_t gc_last_used_block; // The block ID of the highest block allocated in the area\n"
            "    struct _mp_gc_fit gc_fits[MP_GC_FITS];\n"
            "    size_t gc_scanned_blocks; // that the last collection looked for pointers in\n",
        ),
    ],
    # What scripts do most, without calls (vm_fast.h, vm_fast_obj.h, vm_fast_op.h).
    "py/vm.c": [
        ('#include "py/profile.h"\n', '#include "py/profile.h"\n#include "vm_fast_obj.h"\n#include "vm_fast_op.h"\n'),
        # Numbers in bytecode are most often one byte.
        (
            "    mp_uint_t unum = 0; \\\n    do { \\\n        unum = (unum << 7) + (*ip & 0x7f); \\\n"
            "    } while ((*ip++ & 0x80) != 0)\n",
            "    mp_uint_t unum = *ip++; \\\n    if (unum >= 0x80) { \\\n        unum &= 0x7f; \\\n        do { \\\n"
            "            unum = (unum << 7) + (*ip & 0x7f); \\\n        } while ((*ip++ & 0x80) != 0); \\\n    }\n",
        ),
        # Locals that are there, and sums and the like of two small numbers, have instructions' places of their own. A small
        # number n is 2 n + 1, so what does not fit overflows.
        (
            "                ENTRY(MP_BC_LOAD_FAST_MULTI):\n"
            "                    obj_shared = fastn[MP_BC_LOAD_FAST_MULTI - (mp_int_t)ip[-1]];\n",
            "                ENTRY(MP_BC_LOAD_FAST_MULTI):\n"
            "                    obj_shared = fastn[MP_BC_LOAD_FAST_MULTI - (mp_int_t)ip[-1]];\n"
            "                    if (obj_shared != MP_OBJ_NULL) {\n"
            "                        PUSH(obj_shared);\n                        DISPATCH();\n                    }\n",
        ),
        (
            "                ENTRY(MP_BC_BINARY_OP_MULTI): {\n",
            OWN_ENTRY.format("ADD", "__builtin_add_overflow((mp_int_t)sp[-1], (mp_int_t)sp[0] - 1, &value)", "(mp_obj_t)value")
            + OWN_ENTRY.format("SUBTRACT", "__builtin_sub_overflow((mp_int_t)sp[-1], (mp_int_t)sp[0] - 1, &value)", "(mp_obj_t)value")
            + OWN_ENTRY.format("MULTIPLY", "__builtin_mul_overflow((mp_int_t)sp[-1] - 1, (mp_int_t)sp[0] >> 1, &value)",
                               "(mp_obj_t)(value + 1)")
            + OWN_ENTRY.format("LESS", "(value = (mp_int_t)sp[0], false)", "mp_obj_new_bool((mp_int_t)sp[-1] < value)")
            + "                ENTRY(MP_BC_BINARY_OP_MULTI): {\n",
        ),
        ("                    PUSH(mp_load_name(qst));\n", "                    PUSH(dev_fast_name(qst));\n"),
        ("                    PUSH(mp_load_global(qst));\n", "                    PUSH(dev_fast_global(qst));\n"),
        (
            "                    mp_store_name(qst, POP());\n",
            "                    if (dev_fast_put(mp_locals_get(), MP_OBJ_NEW_QSTR(qst), sp[0])) {\n"
            "                        sp--;\n                        DISPATCH();\n                    }\n"
            "                    mp_store_name(qst, POP());\n",
        ),
        (
            "                        elem = mp_map_lookup(&self->members, MP_OBJ_NEW_QSTR(qst), MP_MAP_LOOKUP);\n",
            "                        elem = dev_fast_find(&self->members, MP_OBJ_NEW_QSTR(qst));\n"
            "                        if (elem == NULL) {\n"
            "                            elem = mp_map_lookup(&self->members, MP_OBJ_NEW_QSTR(qst), MP_MAP_LOOKUP);\n"
            "                        }\n",
        ),
        (
            "                    mp_obj_t value = mp_iternext_allow_raise(obj);\n",
            "                    mp_obj_t value = dev_fast_next(obj);\n",
        ),
        (
            "                    if (mp_obj_is_true(POP())) {\n                        ip += slab;\n",
            "                    if (dev_fast_true(*sp--)) {\n                        ip += slab;\n",
        ),
        ("                    if (!mp_obj_is_true(POP())) {\n", "                    if (!dev_fast_true(*sp--)) {\n"),
        (
            "                    SET_TOP(mp_call_function_n_kw(*sp, unum & 0xff, (unum >> 8) & 0xff, sp + 1));\n",
            "                    SET_TOP(dev_fast_call(unum & 0xff, (unum >> 8) & 0xff, *sp, sp + 1));\n",
        ),
        (
            "                    SET_TOP(mp_call_method_n_kw(unum & 0xff, (unum >> 8) & 0xff, sp));\n",
            "                    size_t with_self = sp[1] == MP_OBJ_NULL ? 0 : 1;\n"
            "                    SET_TOP(dev_fast_call((unum & 0xff) + with_self, (unum >> 8) & 0xff, *sp, sp + 2 - with_self));\n",
        ),
        (
            "                    mp_unpack_sequence(sp[0], unum, sp);\n",
            "                    if (!dev_fast_unpack(sp[0], unum, sp)) {\n"
            "                        mp_unpack_sequence(sp[0], unum, sp);\n                    }\n",
        ),
        (
            "                        mp_obj_list_append(obj, sp[0]);\n",
            "                        dev_fast_append(obj, sp[0]);\n",
        ),
        (
            "                    mp_load_method(*sp, qst, sp);\n",
            "                    if (!dev_fast_method(*sp, qst, sp)) {\n"
            "                        mp_load_method(*sp, qst, sp);\n                    }\n",
        ),
        (
            "                    SET_TOP(mp_obj_subscr(TOP(), index, MP_OBJ_SENTINEL));\n",
            "                    mp_obj_t item = dev_fast_item(TOP(), index);\n"
            "                    SET_TOP(item != MP_OBJ_NULL ? item : mp_obj_subscr(TOP(), index, MP_OBJ_SENTINEL));\n",
        ),
        (
            "                    mp_obj_subscr(sp[-1], sp[0], sp[-2]);\n",
            "                    if (!dev_fast_item_put(sp[-1], sp[0], sp[-2])) {\n"
            "                        mp_obj_subscr(sp[-1], sp[0], sp[-2]);\n                    }\n",
        ),
        (
            "                    SET_TOP(mp_binary_op(ip[-1] - MP_BC_BINARY_OP_MULTI, lhs, rhs));\n                    DISPATCH();\n"
            "                }\n\n                ENTRY_DEFAULT:\n",
            "                    mp_obj_t result = dev_fast_binary(ip[-1] - MP_BC_BINARY_OP_MULTI, lhs, rhs);\n"
            "                    SET_TOP(result != MP_OBJ_NULL ? result : mp_binary_op(ip[-1] - MP_BC_BINARY_OP_MULTI, lhs, rhs));\n"
            "                    DISPATCH();\n                }\n\n                ENTRY_DEFAULT:\n",
        ),
    ],
    "py/vmentrytable.h": [
        (
            "MP_BC_BINARY_OP_MULTI + MP_BC_BINARY_OP_MULTI_NUM - 1] = &&entry_MP_BC_BINARY_OP_MULTI,\n",
            "MP_BC_BINARY_OP_MULTI + MP_BC_BINARY_OP_MULTI_NUM - 1] = &&entry_MP_BC_BINARY_OP_MULTI,\n"
            "    [MP_BC_BINARY_OP_MULTI + MP_BINARY_OP_ADD] = &&entry_DEV_ADD,\n"
            "    [MP_BC_BINARY_OP_MULTI + MP_BINARY_OP_INPLACE_ADD] = &&entry_DEV_ADD,\n"
            "    [MP_BC_BINARY_OP_MULTI + MP_BINARY_OP_SUBTRACT] = &&entry_DEV_SUBTRACT,\n"
            "    [MP_BC_BINARY_OP_MULTI + MP_BINARY_OP_INPLACE_SUBTRACT] = &&entry_DEV_SUBTRACT,\n"
            "    [MP_BC_BINARY_OP_MULTI + MP_BINARY_OP_MULTIPLY] = &&entry_DEV_MULTIPLY,\n"
            "    [MP_BC_BINARY_OP_MULTI + MP_BINARY_OP_INPLACE_MULTIPLY] = &&entry_DEV_MULTIPLY,\n"
            "    [MP_BC_BINARY_OP_MULTI + MP_BINARY_OP_LESS] = &&entry_DEV_LESS,\n",
        ),
    ],
    "py/runtime.c": [
        ('#include "py/parsenum.h"\n', '#include "py/parsenum.h"\n#include "vm_fast_obj.h"\n'),
        # The iterators of lists, tuples and the like, without two calls.
        (
            "    mp_cstack_check(); // enumerate, filter, map and zip can recursively call mp_iternext\n"
            "    const mp_obj_type_t *type = mp_obj_get_type(o_in);\n",
            "    mp_cstack_check(); // enumerate, filter, map and zip can recursively call mp_iternext\n"
            "    const mp_obj_type_t *type = dev_fast_type(o_in);\n"
            "    if (type == &mp_type_polymorph_iter) {\n        return dev_fast_next(o_in);\n    }\n",
        ),
    ],
    "py/modbuiltins.c": [
        ('#include "py/stream.h"\n', '#include "py/stream.h"\n#include "vm_fast_op.h"\n'),
        (
            "        value = mp_binary_op(MP_BINARY_OP_ADD, value, item);\n",
            "        mp_obj_t next = dev_fast_binary(MP_BINARY_OP_ADD, value, item);\n"
            "        value = next != MP_OBJ_NULL ? next : mp_binary_op(MP_BINARY_OP_ADD, value, item);\n",
        ),
    ],
    "py/qstr.c": [
        # Four names at a time by their hashes.
        (
            "        for (mp_uint_t at = low; at < high + 1; at++) {\n",
            "        mp_uint_t at = low;\n"
            "        for (uint64_t four; !pool->is_sorted && at + 4 <= high + 1; at += 4) {\n"
            "            const uint64_t ones = UINT64_C(0x0001000100010001);\n"
            "            __builtin_memcpy(&four, &pool->hashes[at], sizeof(four));\n"
            "            four ^= ones * str_hash;\n"
            "            if (((four - ones) & ~four & ones << 15) != 0) {\n"
            "                break;\n"
            "            }\n"
            "        }\n"
            "        for (; at < high + 1; at++) {\n",
        ),
    ],
    "py/gc.c": [
        ('#include "py/runtime.h"\n', '#include "py/runtime.h"\n' + ORDER),
        # One block where the search begins, most of all: without what the rest needs.
        (
            "void *gc_alloc(size_t n_bytes, unsigned int alloc_flags) {\n",
            "static __attribute__((noinline)) void *alloc_any(size_t n_bytes, unsigned int alloc_flags);\n"
            "void *gc_alloc(size_t n_bytes, unsigned int alloc_flags) {\n"
            "    mp_state_mem_area_t *area = &MP_STATE_MEM(area);\n"
            "    size_t at = area->gc_last_free_atb_index;\n"
            "    uint64_t kinds = 0;\n"
            "    if (n_bytes - 1 >= BYTES_PER_BLOCK || MP_STATE_THREAD(gc_lock_depth) > 0 ||\n"
            "        MP_STATE_MEM(gc_alloc_amount) >= MP_STATE_MEM(gc_alloc_threshold) ||\n"
            "        at + sizeof(kinds) > area->gc_alloc_table_byte_len) {\n"
            "        return alloc_any(n_bytes, alloc_flags);\n"
            "    }\n"
            "    __builtin_memcpy(&kinds, area->gc_alloc_table_start + at, sizeof(kinds));\n"
            "    uint64_t free_bits = ~(kinds | kinds >> 1) & UINT64_C(0x5555555555555555);\n"
            "    if (free_bits == 0) {\n"
            "        return alloc_any(n_bytes, alloc_flags);\n"
            "    }\n"
            "    unsigned bit = (unsigned)__builtin_ctzll(free_bits);\n"
            "    size_t block = at * BLOCKS_PER_ATB + bit / 2;\n"
            "    area->gc_alloc_table_start[at + bit / 8] |= AT_HEAD << bit % 8;\n"
            "    area->gc_last_free_atb_index = (block + 1) / BLOCKS_PER_ATB;\n"
            "    area->gc_last_used_block = MAX(area->gc_last_used_block, block);\n"
            "    MP_STATE_MEM(gc_alloc_amount) += 1;\n"
            "    void *one = area->gc_pool_start + block * BYTES_PER_BLOCK;\n"
            "    UNPOISON(one, BYTES_PER_BLOCK);\n"
            "    __builtin_memset(one, 0, BYTES_PER_BLOCK);\n"
            "    USABLE(one, n_bytes, 1)\n"
            "    return one;\n"
            "}\n\n"
            "static void *alloc_any(size_t n_bytes, unsigned int alloc_flags) {\n",
        ),
        # One block elsewhere: the first eight bytes of the table that have a free one say where.
        (
            "    GC_ENTER();\n\n    mp_state_mem_area_t *area;\n    size_t i;\n    size_t end_block;\n",
            "    mp_state_mem_area_t *only = &MP_STATE_MEM(area);\n"
            "    bool due = MP_STATE_MEM(gc_auto_collect_enabled) && MP_STATE_MEM(gc_alloc_amount) >= MP_STATE_MEM(gc_alloc_threshold);\n"
            "    uint64_t kinds = 0;\n"
            "    for (size_t at = only->gc_last_free_atb_index;\n"
            "         n_blocks == 1 && !due && at + sizeof(kinds) <= only->gc_alloc_table_byte_len; at += sizeof(kinds)) {\n"
            "        MICROPY_GC_HOOK_LOOP(at | 7);\n"
            "        __builtin_memcpy(&kinds, only->gc_alloc_table_start + at, sizeof(kinds));\n"
            "        uint64_t free_bits = ~(kinds | kinds >> 1) & UINT64_C(0x5555555555555555);\n"
            "        if (free_bits != 0) {\n"
            "            unsigned bit = (unsigned)__builtin_ctzll(free_bits);\n"
            "            size_t block = at * BLOCKS_PER_ATB + bit / 2;\n"
            "            only->gc_alloc_table_start[at + bit / 8] |= AT_HEAD << bit % 8;\n"
            "            only->gc_last_free_atb_index = (block + 1) / BLOCKS_PER_ATB;\n"
            "            only->gc_last_used_block = MAX(only->gc_last_used_block, block);\n"
            "            MP_STATE_MEM(gc_alloc_amount) += 1;\n"
            "            void *one = only->gc_pool_start + block * BYTES_PER_BLOCK;\n"
            "            UNPOISON(one, BYTES_PER_BLOCK);\n"
            "            __builtin_memset(one, 0, BYTES_PER_BLOCK);\n"
            "            USABLE(one, n_bytes, 1)\n"
            "            return one;\n"
            "        }\n"
            "    }\n"
            "    void *few = n_blocks > 1 && n_blocks <= 4 && !due && alloc_flags == 0 ? few_alloc(only, n_blocks, n_bytes) : NULL;\n"
            "    if (few != NULL) {\n        return few;\n    }\n\n"
            "    GC_ENTER();\n\n    mp_state_mem_area_t *area;\n    size_t i;\n    size_t end_block;\n",
        ),
        # What is cleared is most often small, and then of a size that is known.
        (
            "    memset((byte *)ret_ptr, 0, (end_block - start_block + 1) * BYTES_PER_BLOCK);\n    USABLE(",
            "    if (n_blocks == 2) {\n"
            "        __builtin_memset(ret_ptr, 0, 2 * BYTES_PER_BLOCK);\n"
            "    } else if (alloc_flags & DEV_VM_ALLOC_UNCLEARED) {\n"
            "        DEV_VM_SOILED(ret_ptr, n_bytes)\n"
            "        __builtin_memset((byte *)ret_ptr + n_bytes, 0, n_blocks * BYTES_PER_BLOCK - n_bytes);\n"
            "    } else {\n"
            "        memset((byte *)ret_ptr, 0, n_blocks * BYTES_PER_BLOCK);\n"
            "    }\n    USABLE(",
        ),
        # Several blocks: the table is read eight bytes at a time, and from where the search for as many ended before. That
        # no place for them lies below holds until something there is freed, so a block lies where it would have.
        (
            "            for (i = area->gc_last_free_atb_index; i < area->gc_alloc_table_byte_len; i++) {\n"
            "                MICROPY_GC_HOOK_LOOP(i);\n",
            "            i = area->gc_last_free_atb_index;\n"
            "            if (n_blocks > 1 && fit->blocks != 0 && fit->blocks <= n_blocks && fit->index > i) {\n"
            "                i = fit->index;\n"
            "            }\n"
            "            from = i;\n"
            "            for (; i < area->gc_alloc_table_byte_len; i++) {\n"
            "                if (i % sizeof(kinds) == 0 && i + sizeof(kinds) <= area->gc_alloc_table_byte_len) {\n"
            "                    __builtin_memcpy(&kinds, area->gc_alloc_table_start + i, sizeof(kinds));\n"
            "                    bool is_full = (~(kinds | kinds >> 1) & UINT64_C(0x5555555555555555)) == 0;\n"
            "                    if (is_full || (kinds == 0 && n_free + BLOCKS_PER_WORD < n_blocks)) {\n"
            "                        n_free = is_full ? 0 : n_free + BLOCKS_PER_WORD;\n"
            "                        i += sizeof(kinds) - 1;\n"
            "                        MICROPY_GC_HOOK_LOOP(i);\n"
            "                        continue;\n"
            "                    }\n"
            "                }\n"
            "                MICROPY_GC_HOOK_LOOP(i);\n",
        ),
        (
            "    int collected = !MP_STATE_MEM(gc_auto_collect_enabled);\n",
            "    struct _mp_gc_fit *fit = &only->gc_fits[(63 - __builtin_clzll(n_blocks)) % MP_GC_FITS];\n"
            "    size_t from = 0;\n"
            "    int collected = !MP_STATE_MEM(gc_auto_collect_enabled);\n",
        ),
        (
            "    start_block = i - n_free + 1;\n",
            "    start_block = i - n_free + 1;\n"
            "    if (n_blocks > 1 && (fit->blocks == 0 || n_blocks <= fit->blocks || i / BLOCKS_PER_ATB - from > FIT_FAR)) {\n"
            "        fit->blocks = (uint32_t)n_blocks;\n"
            "        fit->index = (uint32_t)((end_block + 1) / BLOCKS_PER_ATB);\n"
            "    }\n",
        ),
        (
            "    for (size_t bl = start_block + 1; bl <= end_block; bl++) {\n        ATB_FREE_TO_TAIL(area, bl);\n    }\n\n"
            "    // get pointer to first block\n",
            "    size_t bl = start_block + 1;\n"
            "    for (; bl <= end_block && bl % BLOCKS_PER_ATB != 0; bl++) {\n        ATB_FREE_TO_TAIL(area, bl);\n    }\n"
            "    if (bl + BLOCKS_PER_ATB <= end_block + 1) {\n"
            "        size_t bytes = (end_block + 1 - bl) / BLOCKS_PER_ATB;\n"
            "        __builtin_memset(area->gc_alloc_table_start + bl / BLOCKS_PER_ATB, 0xaa, bytes); // AT_TAIL, four times\n"
            "        bl += bytes * BLOCKS_PER_ATB;\n"
            "    }\n"
            "    for (; bl <= end_block; bl++) {\n        ATB_FREE_TO_TAIL(area, bl);\n    }\n\n"
            "    // get pointer to first block\n",
        ),
        (
            "    for (mp_state_mem_area_t *area = &MP_STATE_MEM(area); area != NULL; area = NEXT_AREA(area)) {\n"
            "        area->gc_last_free_atb_index = 0;\n",
            "    for (mp_state_mem_area_t *area = &MP_STATE_MEM(area); area != NULL; area = NEXT_AREA(area)) {\n"
            "        area->gc_last_free_atb_index = 0;\n"
            "        fits_freed(area, 0);\n",
        ),
        (
            "static void gc_sweep_free_blocks(void);\n",
            "static void gc_sweep_free_blocks(void);\n\n"
            "#define BLOCKS_PER_WORD (BLOCKS_PER_ATB * sizeof(uint64_t))\n"
            "#define FIT_FAR 16 // bytes of the table that are worth another size's place\n\n"
            "// Something was freed from this block on: what was known of the places below is forgotten.\n"
            "static void fits_freed(mp_state_mem_area_t *area, size_t block) {\n"
            "    for (size_t i = 0; i < MP_GC_FITS; i++) {\n"
            "        if (block / BLOCKS_PER_ATB <= area->gc_fits[i].index) {\n"
            "            area->gc_fits[i].blocks = 0;\n"
            "            area->gc_fits[i].index = 0;\n"
            "        }\n"
            "    }\n"
            "}\n\n"
            "// Two to four blocks where the search below would find them; NULL: only it can tell.\n"
            "static void *few_alloc(mp_state_mem_area_t *area, size_t n_blocks, size_t n_bytes) {\n"
            "    const uint64_t ones = UINT64_C(0x5555555555555555);\n"
            "    struct _mp_gc_fit *fit = &area->gc_fits[n_blocks / 2];\n"
            "    size_t from = area->gc_last_free_atb_index;\n"
            "    if (fit->blocks != 0 && fit->blocks <= n_blocks && fit->index > from) {\n"
            "        from = fit->index;\n"
            "    }\n"
            "    uint64_t kinds[2];\n"
            "    for (size_t at = from; at + sizeof(kinds) <= area->gc_alloc_table_byte_len; at += sizeof(kinds[0])) {\n"
            "        MICROPY_GC_HOOK_LOOP(at | 7);\n"
            "        __builtin_memcpy(kinds, area->gc_alloc_table_start + at, sizeof(kinds));\n"
            "        uint64_t free_bits = ~(kinds[0] | kinds[0] >> 1) & ones, next = ~(kinds[1] | kinds[1] >> 1) & ones;\n"
            "        uint64_t starts = free_bits & (free_bits >> 2 | next << 62);\n"
            "        starts &= n_blocks > 2 ? free_bits >> 4 | next << 60 : starts;\n"
            "        starts &= n_blocks > 3 ? free_bits >> 6 | next << 58 : starts;\n"
            "        if (starts != 0) {\n"
            "            size_t block = at * BLOCKS_PER_ATB + (unsigned)__builtin_ctzll(starts) / 2;\n"
            "            size_t end = block + n_blocks - 1;\n"
            "            if (fit->blocks == 0 || n_blocks <= fit->blocks || end / BLOCKS_PER_ATB - from > FIT_FAR) {\n"
            "                fit->blocks = (uint32_t)n_blocks;\n"
            "                fit->index = (uint32_t)((end + 1) / BLOCKS_PER_ATB);\n"
            "            }\n"
            "            area->gc_last_used_block = MAX(area->gc_last_used_block, end);\n"
            "            uint16_t marks = 0; // a head and tails\n"
            "            byte *marked = area->gc_alloc_table_start + block / BLOCKS_PER_ATB;\n"
            "            __builtin_memcpy(&marks, marked, sizeof(marks));\n"
            "            marks |= (0xa9 & ((1 << 2 * n_blocks) - 1)) << block % BLOCKS_PER_ATB * 2;\n"
            "            __builtin_memcpy(marked, &marks, sizeof(marks));\n"
            "            MP_STATE_MEM(gc_alloc_amount) += n_blocks;\n"
            "            byte *few = area->gc_pool_start + block * BYTES_PER_BLOCK;\n"
            "            UNPOISON(few, n_blocks * BYTES_PER_BLOCK);\n"
            "            __builtin_memset(few, 0, 2 * BYTES_PER_BLOCK);\n"
            "            __builtin_memset(few + (n_blocks - 2) * BYTES_PER_BLOCK, 0, 2 * BYTES_PER_BLOCK);\n"
            "            USABLE(few, n_bytes, n_blocks)\n"
            "            return few;\n"
            "        }\n"
            "    }\n"
            "    return NULL;\n"
            "}\n",
        ),
        (
            "    area->gc_last_free_atb_index = 0;\n    area->gc_last_used_block = 0;\n",
            "    area->gc_last_free_atb_index = 0;\n    area->gc_last_used_block = 0;\n    fits_freed(area, 0);\n",
        ),
        (
            "    if (block / BLOCKS_PER_ATB < area->gc_last_free_atb_index) {\n",
            "    fits_freed(area, block);\n    if (block / BLOCKS_PER_ATB < area->gc_last_free_atb_index) {\n",
        ),
        (
            "        if ((block + new_blocks) / BLOCKS_PER_ATB < area->gc_last_free_atb_index) {\n",
            "        fits_freed(area, block + new_blocks);\n"
            "        if ((block + new_blocks) / BLOCKS_PER_ATB < area->gc_last_free_atb_index) {\n",
        ),
        # The elements of an array are numbers: no pointers are looked for in them.
        (
            "        size_t n_blocks = 0;\n        do {\n            n_blocks += 1;\n"
            "        } while (ATB_GET_KIND(area, block + n_blocks) == AT_TAIL);\n\n        // check that the consecutive",
            "        bool is_leaf = DEV_VM_IS_LEAF((void **)PTR_FROM_BLOCK(area, block));\n"
            "        size_t n_blocks = 0;\n        do {\n            n_blocks += 1;\n"
            "        } while (!is_leaf && ATB_GET_KIND(area, block + n_blocks) == AT_TAIL);\n"
            "        area->gc_scanned_blocks += n_blocks;\n\n        // check that the consecutive",
        ),
        (
            "    MP_STATE_MEM(gc_stack_overflow) = 0;\n}\n",
            "    MP_STATE_MEM(gc_stack_overflow) = 0;\n    MP_STATE_MEM(area).gc_scanned_blocks = 0;\n}\n",
        ),
        # What is free, or belongs to one large object, is swept eight bytes of the table at a time.
        (
            "        for (size_t block = 0; block <= area->gc_last_used_block; block++) {\n            MICROPY_GC_HOOK_LOOP(block);\n",
            "        for (size_t block = 0; block <= area->gc_last_used_block; block++) {\n"
            "            uint64_t kinds = 1;\n"
            "            if (block % BLOCKS_PER_WORD == 0 && block + BLOCKS_PER_WORD <= area->gc_last_used_block) {\n"
            "                __builtin_memcpy(&kinds, area->gc_alloc_table_start + block / BLOCKS_PER_ATB, sizeof(kinds));\n"
            "            }\n"
            "            if (kinds == 0 || kinds == UINT64_C(0xaaaaaaaaaaaaaaaa)) { // free, or tails\n"
            "                if (kinds != 0 && free_tail) {\n"
            "                    __builtin_memset(area->gc_alloc_table_start + block / BLOCKS_PER_ATB, 0, sizeof(kinds));\n"
            "                    POISON(PTR_FROM_BLOCK(area, block), BLOCKS_PER_WORD * BYTES_PER_BLOCK);\n"
            "                } else if (kinds != 0) {\n"
            "                    last_used_block = block + BLOCKS_PER_WORD - 1;\n"
            "                }\n"
            "                block += BLOCKS_PER_WORD - 1;\n"
            "                MICROPY_GC_HOOK_LOOP(block);\n"
            "                continue;\n"
            "            }\n"
            "            MICROPY_GC_HOOK_LOOP(block);\n",
        ),
    ],
    "py/map.c": [
        ('#include "py/misc.h"\n', '#include "py/misc.h"\n#include "vm_fast.h"\n'),
        # No division on the way to what the cache knows, which mp_map_lookup asks, and a short one elsewhere.
        ("((((uintptr_t)(index)) >> 2) % MICROPY_OPT_MAP_LOOKUP_CACHE_SIZE)", "DEV_FAST_AT(index)"),
        (
            "    #if MICROPY_OPT_MAP_LOOKUP_CACHE\n    // Try the cache for lookup or add-if-not-found.\n",
            "    #if 0\n    // Try the cache for lookup or add-if-not-found.\n",
        ),
        ("    size_t pos = hash % map->alloc;\n", "    size_t pos = dev_fast_place(hash, map->alloc);\n"),
        ("start_pos = pos = hash % map->alloc;", "start_pos = pos = dev_fast_place(hash, map->alloc);"),
        ("        pos = (pos + 1) % map->alloc;\n", "        pos = pos + 1 == map->alloc ? 0 : pos + 1;\n"),
        ("    size_t pos = hash % set->alloc;\n", "    size_t pos = dev_fast_place(hash, set->alloc);\n"),
        ("start_pos = pos = hash % set->alloc;", "start_pos = pos = dev_fast_place(hash, set->alloc);"),
        ("        pos = (pos + 1) % set->alloc;\n", "        pos = pos + 1 == set->alloc ? 0 : pos + 1;\n"),
        # Two texts are compared without asking what they are once more.
        (
            "    bool equal = mp_obj_equal(key, index);\n    TABLE_CHECK(map, table, alloc)\n",
            "    if (mp_obj_is_str(key) && mp_obj_is_str(index)) {\n"
            "        dev_vm_step(); // as any comparison\n"
            "        return mp_obj_str_equal(key, index);\n"
            "    }\n"
            "    bool equal = mp_obj_equal(key, index);\n    TABLE_CHECK(map, table, alloc)\n",
        ),
        # Names in tables of names alone are found by their addresses; nothing of a script's runs meanwhile.
        (
            "mp_map_elem_t *MICROPY_WRAP_MP_MAP_LOOKUP(mp_map_lookup)(mp_map_t * map, mp_obj_t index, mp_map_lookup_kind_t lookup_kind) {\n",
            "static mp_map_elem_t *map_lookup_any(mp_map_t *map, mp_obj_t index, mp_map_lookup_kind_t lookup_kind);\n"
            "mp_map_elem_t *MICROPY_WRAP_MP_MAP_LOOKUP(mp_map_lookup)(mp_map_t * map, mp_obj_t index, mp_map_lookup_kind_t lookup_kind) {\n"
            "    if (lookup_kind == MP_MAP_LOOKUP_REMOVE_IF_FOUND || map->alloc == 0) {\n"
            "        return map_lookup_any(map, index, lookup_kind);\n"
            "    }\n"
            "    mp_map_elem_t *cached = dev_fast_find(map, index);\n"
            "    if (cached != NULL) {\n"
            "        return cached;\n"
            "    }\n"
            "    if (!mp_obj_is_qstr(index) || !map->all_keys_are_qstrs || map->is_ordered) {\n"
            "        return map_lookup_any(map, index, lookup_kind);\n"
            "    }\n"
            "    size_t start = dev_fast_place(qstr_hash(MP_OBJ_QSTR_VALUE(index)), map->alloc);\n"
            "    size_t pos = start;\n"
            "    uint32_t ticks = 0;\n"
            "    do {\n"
            "        mp_map_elem_t *slot = &map->table[pos];\n"
            "        if (slot->key == index) {\n"
            "            MAP_CACHE_SET(index, pos);\n"
            "            return slot;\n"
            "        }\n"
            "        if (slot->key == MP_OBJ_NULL) {\n"
            "            if (lookup_kind == MP_MAP_LOOKUP) {\n"
            "                return NULL;\n"
            "            }\n"
            "            map->used += 1;\n"
            "            slot->key = index;\n"
            "            slot->value = MP_OBJ_NULL;\n"
            "            return slot;\n"
            "        }\n"
            "        if (slot->key == MP_OBJ_SENTINEL && lookup_kind != MP_MAP_LOOKUP) {\n"
            "            break; // it may have to be filled\n"
            "        }\n"
            "        pos = pos + 1 == map->alloc ? 0 : pos + 1;\n"
            "        (void)dev_vm_tick(&ticks);\n"
            "    } while (pos != start);\n"
            "    return lookup_kind == MP_MAP_LOOKUP ? NULL : map_lookup_any(map, index, lookup_kind);\n"
            "}\n"
            "static mp_map_elem_t *map_lookup_any(mp_map_t *map, mp_obj_t index, mp_map_lookup_kind_t lookup_kind) {\n",
        ),
        (
            "    map->used = 0;\n    map->all_keys_are_qstrs = 1;\n    map->table = new_table;\n    for",
            "    map->used = 0;\n    map->all_keys_are_qstrs = 1;\n    map->table = new_table;\n"
            "    bool names_only = true;\n    for",
        ),
        # Keys of a table differ, so its names go to the first free place.
        (
            "            mp_map_lookup(map, old_table[i].key, MP_MAP_LOOKUP_ADD_IF_NOT_FOUND)->value = old_table[i].value;\n",
            "            if (names_only && mp_obj_is_qstr(old_table[i].key)) {\n"
            "                size_t pos = dev_fast_place(qstr_hash(MP_OBJ_QSTR_VALUE(old_table[i].key)), new_alloc);\n"
            "                uint32_t steps = 0;\n"
            "                while (new_table[pos].key != MP_OBJ_NULL && dev_vm_tick(&steps)) {\n"
            "                    pos = pos + 1 == new_alloc ? 0 : pos + 1;\n"
            "                }\n"
            "                new_table[pos] = old_table[i];\n"
            "                map->used++;\n"
            "                continue;\n"
            "            }\n"
            "            names_only = false; // from here on code of a script's may have run\n"
            "            mp_map_lookup(map, old_table[i].key, MP_MAP_LOOKUP_ADD_IF_NOT_FOUND)->value = old_table[i].value;\n",
        ),
    ],
}
