"""Changes of MicroPython's files that bound what a script can make C do: sizes, lengths, and memory that is in use.

Read by patch_sources.py. One entry a file: text found, text put in its place, and where it is not one, how often.

Sizes: every allocation goes through dev_vm_size (vm_alloc.h); what adds or multiplies before is checked here.
Lengths: a loop whose length a script chooses counts budget units, in the loop (dev_vm_tick, dev_vm_step) where its
length is not bounded by the heap, before it (dev_vm_work) where it is.
Memory in use: C code may hold a pointer into a list, a dict or an array while it calls the script back (__eq__,
__hash__, a sort key), and the script may change that very object. So these never free or shrink what they let go:
the collector does, and it takes a pointer into the middle of a block on the stack for a use of the block.
"""
CHECK = "    mp_cstack_check();\n"
TICK = "dev_vm_tick(&ticks) && "

# What a container lets go stays until the collector finds that nobody uses it.
KEPT = (
    "\n#undef m_del\n#define m_del(type, ptr, num) ((void)(ptr), (void)(num))\n"
    "#undef m_renew\n#define m_renew m_renew_kept\n"
)


def work(count, unit="DEV_VM_TEXT_PER_UNIT"):
    return f"    dev_vm_work(({count}) / {unit});\n"


def sized(macro):
    return (f"({macro}(sizeof(type) * (num)))", f"({macro}(dev_vm_size(0, sizeof(type), (size_t)(num))))")


def sized_var(macro):
    return (
        f"{macro}(offsetof(obj_type, var_field) + sizeof(var_type) * (var_num)))",
        f"{macro}(dev_vm_size(offsetof(obj_type, var_field), sizeof(var_type), (size_t)(var_num))))",
    )


BOUNDS = {
    "py/misc.h": [
        sized("m_malloc"),
        sized("m_malloc_maybe"),
        sized("m_malloc0"),
        sized_var("m_malloc"),
        sized_var("m_malloc0"),
        sized_var("m_malloc_maybe"),
        (
            "(m_realloc((ptr), sizeof(type) * (new_num))))",
            "(m_realloc((ptr), dev_vm_size(0, sizeof(type), (size_t)(new_num)))))\n"
            "#define m_renew_kept(type, ptr, old_num, new_num) ((type *)dev_vm_renew_kept((ptr), "
            "sizeof(type) * (old_num), dev_vm_size(0, sizeof(type), (size_t)(new_num))))",
        ),
        (
            "(m_realloc_maybe((ptr), sizeof(type) * (new_num), (allow_move))))",
            "(m_realloc_maybe((ptr), dev_vm_size(0, sizeof(type), (size_t)(new_num)), (allow_move))))",
        ),
        (
            "void *m_realloc(void *ptr, size_t new_num_bytes);\n",
            "void *m_realloc(void *ptr, size_t new_num_bytes);\n"
            "void *dev_vm_renew_kept(void *ptr, size_t old_bytes, size_t new_bytes);\n",
        ),
    ],
    "py/obj.h": [
        (
            "mp_obj_malloc_helper(offsetof(struct_type, var_field) + sizeof(var_type) * (var_num), obj_type))",
            "mp_obj_malloc_helper(dev_vm_size(offsetof(struct_type, var_field), sizeof(var_type), "
            "(size_t)(var_num)), obj_type))",
        ),
    ],
    "py/malloc.c": [
        (
            "void *m_malloc_maybe(size_t num_bytes) {\n",
            "// A larger block with the same content; the old one is left to the collector, and never becomes smaller.\n"
            "void *dev_vm_renew_kept(void *ptr, size_t old_bytes, size_t new_bytes) {\n"
            "    if (new_bytes <= old_bytes) {\n"
            "        return ptr;\n"
            "    }\n"
            "    void *grown = ptr == NULL ? NULL : gc_realloc(ptr, new_bytes, false);\n"
            "    if (grown == NULL) {\n"
            "        grown = m_malloc(new_bytes);\n"
            "        if (old_bytes > 0) {\n"
            "            memcpy(grown, ptr, old_bytes);\n"
            "        }\n"
            "    }\n"
            "    return grown;\n"
            "}\n\n"
            "void *m_malloc_maybe(size_t num_bytes) {\n",
        ),
    ],
    "py/gc.c": [
        # Work of the allocator is not counted as instructions: it depends on how the heap lies.
        (
            '#include "py/gc.h"\n',
            '#include "py/gc.h"\n'
            "#undef memset\n#undef memcpy\n"
            "#define memset(to, byte, size) (dev_vm_copied_quiet(size), "
            "__builtin_memset(to, byte, size))\n"
            "#define memcpy(to, from, size) (dev_vm_copied_quiet(size), "
            "__builtin_memcpy(to, from, size))\n"
            # Under the address sanitizer what is free, and what lies behind the bytes asked for, cannot be touched.
            "#if DEV_VM_POISON\n"
            "void __asan_poison_memory_region(void const volatile *addr, size_t size);\n"
            "void __asan_unpoison_memory_region(void const volatile *addr, size_t size);\n"
            "#define POISON(ptr, size) __asan_poison_memory_region((ptr), (size))\n"
            "#define UNPOISON(ptr, size) __asan_unpoison_memory_region((ptr), (size))\n"
            "#else\n"
            "#define POISON(ptr, size)\n"
            "#define UNPOISON(ptr, size)\n"
            "#endif\n"
            "#define USABLE(ptr, size, blocks) \\\n"
            "    UNPOISON((ptr), (blocks) * BYTES_PER_BLOCK); \\\n"
            "    POISON((byte *)(ptr) + (size), (blocks) * BYTES_PER_BLOCK - (size));\n",
        ),
        (
            "    area->gc_last_free_atb_index = 0;\n    area->gc_last_used_block = 0;\n",
            "    area->gc_last_free_atb_index = 0;\n    area->gc_last_used_block = 0;\n"
            "    POISON(area->gc_pool_start, area->gc_pool_end - area->gc_pool_start);\n",
        ),
        (
            "    memset((byte *)ret_ptr, 0, (end_block - start_block + 1) * BYTES_PER_BLOCK);\n",
            "    UNPOISON(ret_ptr, n_blocks * BYTES_PER_BLOCK);\n"
            "    memset((byte *)ret_ptr, 0, (end_block - start_block + 1) * BYTES_PER_BLOCK);\n"
            "    USABLE(ret_ptr, n_bytes, n_blocks)\n",
        ),
        (
            "                    if (free_tail) {\n                        ATB_ANY_TO_FREE(area, block);\n",
            "                    if (free_tail) {\n                        ATB_ANY_TO_FREE(area, block);\n"
            "                        POISON(PTR_FROM_BLOCK(area, block), BYTES_PER_BLOCK);\n",
        ),
        (
            "    do {\n        ATB_ANY_TO_FREE(area, block);\n        block += 1;\n",
            "    do {\n        ATB_ANY_TO_FREE(area, block);\n"
            "        POISON(PTR_FROM_BLOCK(area, block), BYTES_PER_BLOCK);\n        block += 1;\n",
        ),
        (
            "    if (new_blocks == n_blocks) {\n        GC_EXIT();\n",
            "    if (new_blocks == n_blocks) {\n        USABLE(ptr_in, n_bytes, n_blocks)\n        GC_EXIT();\n",
        ),
        (
            "        // free unneeded tail blocks\n",
            "        USABLE(ptr_in, n_bytes, n_blocks)\n        // free unneeded tail blocks\n",
        ),
        (
            "        memset((byte *)ptr_in + n_blocks * BYTES_PER_BLOCK, 0, (new_blocks - n_blocks) * BYTES_PER_BLOCK);\n",
            "        UNPOISON(ptr_in, new_blocks * BYTES_PER_BLOCK);\n"
            "        memset((byte *)ptr_in + n_blocks * BYTES_PER_BLOCK, 0, (new_blocks - n_blocks) * BYTES_PER_BLOCK);\n"
            "        USABLE(ptr_in, n_bytes, new_blocks)\n",
        ),
        (
            "    memcpy(ptr_out, ptr_in, n_blocks * BYTES_PER_BLOCK);\n",
            "    UNPOISON(ptr_out, new_blocks * BYTES_PER_BLOCK);\n    UNPOISON(ptr_in, n_blocks * BYTES_PER_BLOCK);\n"
            "    memcpy(ptr_out, ptr_in, n_blocks * BYTES_PER_BLOCK);\n    USABLE(ptr_out, n_bytes, new_blocks)\n",
        ),
        # Rounding up must not wrap, and what no heap has needs no collection.
        (
            "    bool has_finaliser = alloc_flags & GC_ALLOC_FLAG_HAS_FINALISER;\n",
            "    bool has_finaliser = alloc_flags & GC_ALLOC_FLAG_HAS_FINALISER;\n"
            "    if (n_bytes > (size_t)(MP_STATE_MEM(area).gc_pool_end - MP_STATE_MEM(area).gc_pool_start)) {\n"
            "        return NULL;\n"
            "    }\n",
        ),
        (
            "    void *ptr = ptr_in;\n\n    GC_ENTER();\n",
            "    void *ptr = ptr_in;\n\n"
            "    if (n_bytes > (size_t)(MP_STATE_MEM(area).gc_pool_end - MP_STATE_MEM(area).gc_pool_start)) {\n"
            "        return NULL;\n"
            "    }\n"
            "    GC_ENTER();\n",
        ),
        # Of roots, a pointer anywhere in a block is a use of it: C code walks through arrays.
        (
            "        if (!VERIFY_PTR(ptr)) {\n            continue;\n        }\n        #endif\n"
            "        size_t block = BLOCK_FROM_PTR(area, ptr);\n        if (ATB_GET_KIND(area, block) == AT_HEAD) {\n",
            "        if (ptr < (void *)area->gc_pool_start || ptr >= (void *)area->gc_pool_end) {\n"
            "            continue;\n        }\n        #endif\n"
            "        size_t block = BLOCK_FROM_PTR(area, ptr);\n"
            "        for (size_t steps = 0; ATB_GET_KIND(area, block) == AT_TAIL; steps++) {\n"
            "            MICROPY_GC_HOOK_LOOP(steps);\n"
            "            uint64_t kinds = 0;\n"
            "            if (block % 32 == 31) {\n"
            "                __builtin_memcpy(&kinds, area->gc_alloc_table_start + block / 32 * sizeof(kinds), sizeof(kinds));\n"
            "            }\n"
            "            block -= kinds == UINT64_C(0xaaaaaaaaaaaaaaaa) ? 32 : 1;\n"
            "        }\n"
            "        if (ATB_GET_KIND(area, block) == AT_HEAD) {\n",
        ),
    ],
    "py/vstr.c": [
        # The mask was one of 32 bits.
        (
            "#define ROUND_ALLOC(a) (((a) & ((~0U) - 7)) + 8)\n",
            "#define ROUND_ALLOC(a) (((a) & ~(size_t)7) + 8)\n"
            "// No text is near this: sizes above it come from arithmetic of a script.\n"
            "#define VSTR_MAX (SIZE_MAX / 4)\n",
        ),
        ("    vstr_init(vstr, len + 1);\n", "    vstr_init(vstr, dev_vm_size(1, 1, len));\n"),
        (
            "    char *new_buf = m_renew(char, vstr->buf, vstr->alloc, vstr->alloc + size);\n",
            "    dev_vm_step();\n"
            "    char *new_buf = m_renew(char, vstr->buf, vstr->alloc, dev_vm_size(vstr->alloc, 1, size));\n",
        ),
        (
            "    if (vstr->len + size > vstr->alloc) {\n",
            "    if (size > VSTR_MAX) {\n        m_malloc_fail(size);\n    }\n"
            "    if (vstr->len + size > vstr->alloc) {\n        dev_vm_step();\n",
        ),
    ],
    "py/sequence.c": [
        (
            "    for (size_t i = 0; i < times; i++) {\n        size_t copy_sz = item_sz * len;\n",
            "    size_t copy_sz = item_sz * len;\n"
            "    if (copy_sz == 0) {\n        return;\n    }\n"
            "    uint32_t ticks = 0;\n"
            "    for (size_t i = 0; i < times && dev_vm_tick(&ticks); i++) {\n",
        ),
        (
            "    size_t len = len1 < len2 ? len1 : len2;\n    for (size_t i = 0; i < len; i++) {\n",
            "    size_t len = len1 < len2 ? len1 : len2;\n    uint32_t ticks = 0;\n"
            "    for (size_t i = 0; i < len && dev_vm_tick(&ticks); i++) {\n",
        ),
        (
            "    for (size_t i = start; i < stop; i++) {\n",
            "    uint32_t ticks = 0;\n    for (size_t i = start; i < stop && dev_vm_tick(&ticks); i++) {\n",
        ),
        (
            "    size_t count = 0;\n    for (size_t i = 0; i < len; i++) {\n",
            "    size_t count = 0;\n    uint32_t ticks = 0;\n"
            "    for (size_t i = 0; i < len && dev_vm_tick(&ticks); i++) {\n",
        ),
        ("        while (start >= stop) {\n", "        uint32_t ticks = 0;\n        while (start >= stop && dev_vm_tick(&ticks)) {\n"),
        ("        while (start < stop) {\n", "        uint32_t ticks = 0;\n        while (start < stop && dev_vm_tick(&ticks)) {\n"),
    ],
    "py/objtuple.c": [
        # Not from an address: another process would order a table of tuples otherwise.
        (
            "            // start hash with pointer to empty tuple, to make it fairly unique\n"
            "            mp_int_t hash = (mp_int_t)mp_const_empty_tuple;\n",
            "            mp_int_t hash = 0x2a5d31b7;\n",
        ),
        ("mp_obj_new_tuple(o->len * n, NULL)", "mp_obj_new_tuple(dev_vm_size(0, o->len, n), NULL)"),
    ],
    "py/objlist.c": [
        ('#include "py/objlist.h"\n', '#include "py/objlist.h"\n' + KEPT
         + "// What a list has room for and does not hold is None: C code may still look at it.\n"
         "#undef mp_seq_clear\n"
         "#define mp_seq_clear(start, len, alloc_len, item_sz) list_room_clear((start), (len), (alloc_len))\n"
         "static void list_room_clear(mp_obj_t *items, size_t from, size_t to) {\n"
         "    for (size_t i = from; i < to; i++) {\n        items[i] = mp_const_none;\n    }\n}\n"),
        ("list_new(o->len * n)", "list_new(dev_vm_size(0, o->len, n))"),
        ("    self->items[self->len] = MP_OBJ_NULL;\n", "    self->items[self->len] = mp_const_none;\n"),
        (
            "    if (self->alloc > LIST_MIN_ALLOC && self->alloc > 2 * self->len) {\n"
            "        self->items = m_renew(mp_obj_t, self->items, self->alloc, self->alloc / 2);\n"
            "        self->alloc /= 2;\n    }\n",
            "",
        ),
        (
            "    self->items = m_renew(mp_obj_t, self->items, self->alloc, LIST_MIN_ALLOC);\n"
            "    self->alloc = LIST_MIN_ALLOC;\n",
            work("self->alloc", "DEV_VM_COPY_PER_UNIT"),
        ),
        ("    mp_cstack_check();\n    while (head < tail) {\n",
         "    mp_cstack_check();\n    uint32_t ticks = 0;\n    while (head < tail) {\n"),
        ("while (h < t && mp_binary_op(MP_BINARY_OP_LESS, key_fn", f"while (h < t && {TICK}mp_binary_op(MP_BINARY_OP_LESS, key_fn"),
        ("while (h < t && mp_binary_op(MP_BINARY_OP_LESS, v", f"while (h < t && {TICK}mp_binary_op(MP_BINARY_OP_LESS, v"),
        ("    for (mp_int_t i = self->len - 1; i > index; i--) {\n",
         work("self->len - index") + "    for (mp_int_t i = self->len - 1; i > index; i--) {\n"),
        ("    for (mp_int_t i = 0; i < len / 2; i++) {\n", work("len") + "    for (mp_int_t i = 0; i < len / 2; i++) {\n"),
    ],
    "py/objarray.c": [
        ('#include "py/objarray.h"\n', '#include "py/objarray.h"\n' + KEPT),
        # __len__ may say less than __iter__ gives.
        ("        if (len == 0) {\n            array_append(", "        if (i >= len) {\n            array_append("),
        ("m_new(byte, typecode_size * o->len)", "m_new(byte, dev_vm_size(0, typecode_size, o->len))"),
    ],
    "py/runtime.c": [
        ("            return MP_OBJ_NEW_SMALL_INT((mp_uint_t)arg);\n",
         "            return MP_OBJ_NEW_SMALL_INT(dev_vm_place((uintptr_t)arg));\n"),
        # A size may be more than 32 bits tell, and what does not fit at all has none (vm_alloc.h).
        ("    mp_raise_msg_varg(&mp_type_MemoryError,\n"
         "        MP_ERROR_TEXT(\"memory allocation failed, allocating %u bytes\"), (uint)num_bytes);\n",
         "    if (num_bytes == SIZE_MAX) {\n"
         "        mp_raise_msg(&mp_type_MemoryError, MP_ERROR_TEXT(\"memory allocation failed, size too large\"));\n"
         "    }\n"
         "    mp_raise_msg_varg(&mp_type_MemoryError,\n"
         "        MP_ERROR_TEXT(\"memory allocation failed, allocating %lu bytes\"), (unsigned long)num_bytes);\n"),
        ("    mp_map_t *map = &mp_obj_module_get_globals(module)->map;\n    for (size_t i = 0; i < map->alloc; i++) {\n",
         "    mp_map_t *map = &mp_obj_module_get_globals(module)->map;\n    uint32_t ticks = 0;\n"
         "    for (size_t i = 0; i < map->alloc && dev_vm_tick(&ticks); i++) {\n"),
        # What __len__ says is a hint: it may lie, and the call may change a list that was measured before.
        ("                    list_len += mp_obj_get_int(len) - 1;\n",
         "                    mp_int_t hint = mp_obj_get_int(len);\n"
         "                    list_len += hint >= 0 && hint <= DEV_VM_ARGS_HINT_MAX ? hint - 1 : 0;\n"),
        ("    // The new args array\n    mp_obj_t *args2;\n",
         "    #define ARGS_ROOM(more) \\\n"
         "        if (args2_alloc < args2_len || args2_alloc - args2_len < (size_t)(more)) { \\\n"
         "            size_t args2_more = 2 * args2_len + (size_t)(more); \\\n"
         "            args2 = m_renew(mp_obj_t, args2, args2_alloc, args2_more); \\\n"
         "            args2_alloc = args2_more; \\\n"
         "        }\n"
         "    // The new args array\n    mp_obj_t *args2;\n"),
        ("        args2_alloc = 1 + n_args + 2 * (n_kw + kw_dict_len);\n        args2 = mp_nonlocal_alloc(args2_alloc * sizeof(mp_obj_t));\n",
         "        args2_alloc = 1 + n_args + 2 * (n_kw + kw_dict_len);\n        args2 = m_new(mp_obj_t, args2_alloc);\n"),
        ("        args2_alloc = 1 + n_args + list_len + 2 * (n_kw + kw_dict_len);\n        args2 = mp_nonlocal_alloc(args2_alloc * sizeof(mp_obj_t));\n",
         "        args2_alloc = 1 + n_args + list_len + 2 * (n_kw + kw_dict_len);\n        args2 = m_new(mp_obj_t, args2_alloc);\n"),
        ("                    assert(args2_len + len <= args2_alloc);\n", "                    ARGS_ROOM(len)\n"),
        ("                        if (args2_len + (n_args - i) >= args2_alloc) {\n"
         "                            args2 = mp_nonlocal_realloc(args2, args2_alloc * sizeof(mp_obj_t),\n"
         "                                args2_alloc * 2 * sizeof(mp_obj_t));\n"
         "                            args2_alloc *= 2;\n                        }\n",
         "                        ARGS_ROOM(1)\n"),
        ("                assert(args2_len < args2_alloc);\n", "                ARGS_ROOM(1)\n"),
        ("        size_t new_alloc = args2_len + 2 * (n_kw + kw_dict_len);\n"
         "        args2 = mp_nonlocal_realloc(args2, args2_alloc * sizeof(mp_obj_t),\n            new_alloc * sizeof(mp_obj_t));\n",
         "        size_t new_alloc = args2_len + 2 * (n_kw + kw_dict_len);\n"
         "        args2 = m_renew(mp_obj_t, args2, args2_alloc, new_alloc);\n"),
        ("                assert(args2_len + 2 * map->used <= args2_alloc);\n", "                ARGS_ROOM(2 * map->used)\n"),
        ("                    if (args2_len + 1 >= args2_alloc) {\n                        size_t new_alloc = args2_alloc * 2;\n"
         "                        args2 = mp_nonlocal_realloc(args2, args2_alloc * sizeof(mp_obj_t), new_alloc * sizeof(mp_obj_t));\n"
         "                        args2_alloc = new_alloc;\n                    }\n",
         "                    ARGS_ROOM(2)\n"),
        ("            assert(args2_len + 2 <= args2_alloc);\n", "            ARGS_ROOM(2)\n"),
    ],
    "py/objdeque.c": [
        # What maxlen + 1 wraps to is no room at all.
        ("    o->alloc = maxlen + 1;\n", "    o->alloc = dev_vm_size(1, 1, maxlen);\n"),
    ],
    "py/map.c": [
        ('#include "py/runtime.h"\n', '#include "py/runtime.h"\n' + KEPT
         + "// A key's __eq__ or __hash__ may have changed the very table that is looked through.\n"
         "#define TABLE_CHECK(set, table_was, alloc_was) \\\n"
         "    if ((set)->table != (table_was) || (set)->alloc != (alloc_was)) { \\\n"
         '        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("changed while a key was looked for")); \\\n'
         "    }\n"
         "static bool keys_equal(mp_map_t *map, mp_obj_t key, mp_obj_t index) {\n"
         "    mp_map_elem_t *table = map->table;\n"
         "    size_t alloc = map->alloc, used = map->used;\n"
         "    bool equal = mp_obj_equal(key, index);\n"
         "    TABLE_CHECK(map, table, alloc)\n"
         "    if (map->is_ordered && map->used != used) {\n"
         '        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("changed while a key was looked for"));\n'
         "    }\n"
         "    return equal;\n"
         "}\n"
         "static bool elems_equal(mp_set_t *set, mp_obj_t elem, mp_obj_t index) {\n"
         "    mp_obj_t *table = set->table;\n"
         "    size_t alloc = set->alloc;\n"
         "    bool equal = mp_obj_equal(elem, index);\n"
         "    TABLE_CHECK(set, table, alloc)\n"
         "    return equal;\n"
         "}\n"),
        ("            if (elem->key == index || (!compare_only_ptrs && mp_obj_equal(elem->key, index))) {\n",
         "            (void)dev_vm_tick(&ticks);\n"
         "            if (elem->key == index || (!compare_only_ptrs && keys_equal(map, elem->key, index))) {\n"),
        ("    // if the map is an ordered array then we must do a brute force linear search\n",
         "    uint32_t ticks = 0;\n    // if the map is an ordered array then we must do a brute force linear search\n"),
        ("    // map is a hash table (not an ordered array), so do a hash lookup\n\n    if (map->alloc == 0) {\n"
         "        if (lookup_kind == MP_MAP_LOOKUP_ADD_IF_NOT_FOUND) {\n            mp_map_rehash(map);\n"
         "        } else {\n            return NULL;\n        }\n    }\n\n"
         "    // get hash of index, with fast path for common case of qstr\n"
         "    mp_uint_t hash;\n    if (mp_obj_is_qstr(index)) {\n        hash = qstr_hash(MP_OBJ_QSTR_VALUE(index));\n"
         "    } else {\n        hash = MP_OBJ_SMALL_INT_VALUE(mp_unary_op(MP_UNARY_OP_HASH, index));\n    }\n",
         "    // map is a hash table (not an ordered array), so do a hash lookup\n"
         "    // get hash of index, with fast path for common case of qstr; it may change the map, so it comes first\n"
         "    mp_uint_t hash = 0;\n    if (mp_obj_is_qstr(index)) {\n        hash = qstr_hash(MP_OBJ_QSTR_VALUE(index));\n"
         "    } else if (map->alloc != 0 || lookup_kind == MP_MAP_LOOKUP_ADD_IF_NOT_FOUND) {\n"
         "        hash = MP_OBJ_SMALL_INT_VALUE(mp_unary_op(MP_UNARY_OP_HASH, index));\n    }\n\n"
         "    if (map->alloc == 0) {\n"
         "        if (lookup_kind == MP_MAP_LOOKUP_ADD_IF_NOT_FOUND) {\n            mp_map_rehash(map);\n"
         "        } else {\n            return NULL;\n        }\n    }\n"),
        ("(!compare_only_ptrs && mp_obj_equal(slot->key, index))", "(!compare_only_ptrs && keys_equal(map, slot->key, index))"),
        ("        pos = (pos + 1) % map->alloc;\n\n", "        pos = (pos + 1) % map->alloc;\n        (void)dev_vm_tick(&ticks);\n\n"),
        ("    if (set->alloc == 0) {\n        if (lookup_kind & MP_MAP_LOOKUP_ADD_IF_NOT_FOUND) {\n            mp_set_rehash(set);\n"
         "        } else {\n            return MP_OBJ_NULL;\n        }\n    }\n"
         "    mp_uint_t hash = MP_OBJ_SMALL_INT_VALUE(mp_unary_op(MP_UNARY_OP_HASH, index));\n",
         "    uint32_t ticks = 0;\n    mp_uint_t hash = 0;\n"
         "    if (set->alloc != 0 || (lookup_kind & MP_MAP_LOOKUP_ADD_IF_NOT_FOUND)) {\n"
         "        hash = MP_OBJ_SMALL_INT_VALUE(mp_unary_op(MP_UNARY_OP_HASH, index));\n    }\n"
         "    if (set->alloc == 0) {\n        if (lookup_kind & MP_MAP_LOOKUP_ADD_IF_NOT_FOUND) {\n            mp_set_rehash(set);\n"
         "        } else {\n            return MP_OBJ_NULL;\n        }\n    }\n"),
        ("        } else if (mp_obj_equal(elem, index)) {\n", "        } else if (elems_equal(set, elem, index)) {\n"),
        ("        pos = (pos + 1) % set->alloc;\n\n", "        pos = (pos + 1) % set->alloc;\n        (void)dev_vm_tick(&ticks);\n\n"),
        # A table that cannot grow is as large as it was.
        ("            map->alloc += 4;\n"
         "            map->table = m_renew(mp_map_elem_t, map->table, map->used, map->alloc);\n",
         "            map->table = m_renew(mp_map_elem_t, map->table, map->used, map->alloc + 4);\n"
         "            map->alloc += 4;\n"),
        ("    set->alloc = get_hash_alloc_greater_or_equal_to(set->alloc + 1);\n"
         "    set->used = 0;\n"
         "    set->table = m_new0(mp_obj_t, set->alloc);\n",
         "    size_t new_alloc = get_hash_alloc_greater_or_equal_to(set->alloc + 1);\n"
         "    set->table = m_new0(mp_obj_t, new_alloc);\n"
         "    set->alloc = new_alloc;\n"
         "    set->used = 0;\n"),
        ("    for (size_t pos = 0; pos < set->alloc; pos++) {\n",
         "    uint32_t ticks = 0;\n    for (size_t pos = 0; pos < set->alloc && dev_vm_tick(&ticks); pos++) {\n"),
    ],
    "py/objdict.c": [
        ("MP_OBJ_NEW_SMALL_INT((mp_uint_t)o_in)", "MP_OBJ_NEW_SMALL_INT(dev_vm_place((uintptr_t)o_in))"),
        # What was deleted may still be looked at: its value is None, never nothing.
        ("            elem->value = MP_OBJ_NULL; // so that GC can collect the deleted value\n",
         "            elem->value = mp_const_none; // so that GC can collect the deleted value\n"),
        ("    next->value = MP_OBJ_NULL;\n", "    next->value = mp_const_none;\n"),
        ("                    mp_map_lookup(&self->map, elem->key, MP_MAP_LOOKUP_ADD_IF_NOT_FOUND)->value = elem->value;\n",
         "                    mp_obj_t value = elem->value;\n"
         "                    mp_map_lookup(&self->map, elem->key, MP_MAP_LOOKUP_ADD_IF_NOT_FOUND)->value = value;\n"),
        ("    for (; i < max; i++) {\n", "    uint32_t ticks = 0;\n    for (; i < max && dev_vm_tick(&ticks); i++) {\n"),
    ],
    "py/objset.c": [
        ("mp_int_t hash = (mp_int_t)(uintptr_t)&mp_type_frozenset;", "mp_int_t hash = 0x51c9e3d5;"),  # as a tuple's
        ("                for (size_t i = 0; i < max; i++) {\n",
         "                uint32_t ticks = 0;\n                for (size_t i = 0; i < max && dev_vm_tick(&ticks); i++) {\n"),
        ("    for (size_t i = self->cur; i < max; i++) {\n",
         "    uint32_t ticks = 0;\n    for (size_t i = self->cur; i < max && dev_vm_tick(&ticks); i++) {\n"),
    ],
    "py/modstruct.c": [
        ("    char fmt_type = get_fmt_type(&fmt);\n    size_t total_cnt = 0;\n",
         work("strlen(fmt)") + "    char fmt_type = get_fmt_type(&fmt);\n    size_t total_cnt = 0;\n"),
        ("    mp_uint_t val = (mp_uint_t)MP_OBJ_SMALL_INT_VALUE(mp_parse_num_integer(*p, len, 10, NULL));\n",
         "    mp_uint_t val = (mp_uint_t)MP_OBJ_SMALL_INT_VALUE(mp_parse_num_integer(*p, len, 10, NULL));\n"
         "    // Of a long integer this is an address: either way it is more than a heap holds.\n"
         "    if (val > DEV_VM_STRUCT_MAX) {\n"
         '        mp_raise_msg(&mp_type_OverflowError, MP_ERROR_TEXT("struct is too large"));\n'
         "    }\n"),
        ("            while (cnt--) {\n                // Apply alignment\n"
         "                size = (size + align - 1) & ~(align - 1);\n                size += sz;\n            }\n        }\n",
         "            // A size is a multiple of its alignment, so what follows the first is aligned.\n"
         "            if (cnt > 0) {\n                size = ((size + align - 1) & ~(align - 1)) + sz * cnt;\n            }\n"
         "        }\n"
         "        if (size > DEV_VM_STRUCT_MAX) {\n"
         '            mp_raise_msg(&mp_type_OverflowError, MP_ERROR_TEXT("struct is too large"));\n'
         "        }\n"),
        ("    for (size_t i = 0; i < num_items;) {\n",
         work("num_items", "DEV_VM_LOOP_PER_UNIT") + "    for (size_t i = 0; i < num_items;) {\n"),
        ('    if (p + total_sz > end_p) {\n',
         "    if (p > end_p || total_sz > (size_t)(end_p - p)) {\n"),
        ("    if (p + sz > end_p) {\n", "    if (p > end_p || sz > end_p - p) {\n"),
    ],
    "py/objstringio.c": [
        # The collector frees what nobody uses.
        ("            vstr_free(o->vstr);\n", ""),
    ],
    "py/objstr.c": [
        # What needs no escape is written as a piece, not a character at a time.
        ("    for (const byte *s = str_data, *top = str_data + str_len; s < top; s++) {\n        if (*s == '\"' || *s == '\\\\') {\n"
         "            mp_printf(print, \"\\\\%c\", *s);\n        } else if (*s >= 32) {\n"
         "            // this will handle normal and utf-8 encoded chars\n            mp_printf(print, \"%c\", *s);\n",
         "    for (const byte *s = str_data, *top = str_data + str_len; s < top; s++) {\n        const byte *piece = s;\n"
         "        while (s < top && *s >= 32 && *s != '\"' && *s != '\\\\') {\n            s++;\n        }\n"
         "        if (s > piece) {\n            print->print_strn(print->data, (const char *)piece, s - piece);\n        }\n"
         "        if (s == top) {\n            break;\n        }\n        if (*s == '\"' || *s == '\\\\') {\n"
         "            mp_printf(print, \"\\\\%c\", *s);\n"),
        ("    vstr_init_print(&vstr, 16, &print);\n\n    for (; str < top; str++) {\n",
         "    vstr_init_print(&vstr, 16, &print);\n\n" + work("top - str") + "    for (; str < top; str++) {\n"),
        ("    for (const byte *top = str + len; str < top; str++) {\n", work("len") + "    for (const byte *top = str + len; str < top; str++) {\n"),
        ("    if (f != unichar_isupper && f != unichar_islower) {\n", work("self_len") + "    if (f != unichar_isupper && f != unichar_islower) {\n"),
        ("    bool has_single_quote = false;\n", work("str_len") + "    bool has_single_quote = false;\n"),
        ("    // for JSON spec, see", work("str_len") + "    // for JSON spec, see"),
        ("    for (size_t i = 0; i < n_prefixes; i++) {\n",
         "    uint32_t ticks = 0;\n    for (size_t i = 0; i < n_prefixes && dev_vm_tick(&ticks); i++) {\n"),
        ("        for (;;) {\n            if (memcmp(&haystack[str_index], needle, nlen) == 0) {\n",
         "        uint32_t ticks = 0;\n        for (;;) {\n            (void)dev_vm_tick(&ticks);\n"
         "            if (memcmp(&haystack[str_index], needle, nlen) == 0) {\n"),
        ("vstr_init_len(&vstr, lhs_len * n)", "vstr_init_len(&vstr, dev_vm_size(0, lhs_len, n))"),
        ("    size_t required_len = 0;\n", "    size_t required_len = 0;\n" + work("seq_len", "DEV_VM_LOOP_PER_UNIT")),
        ("    const byte *top = s + len;\n\n    if (sep == mp_const_none) {\n",
         "    const byte *top = s + len;\n    uint32_t ticks = 0;\n\n    if (sep == mp_const_none) {\n"),
        ("            while (s < top && !unichar_isspace(*s)) {\n", f"            while (s < top && {TICK}!unichar_isspace(*s)) {{\n"),
        ("            while (s < top && unichar_isspace(*s)) {\n", f"            while (s < top && {TICK}unichar_isspace(*s)) {{\n"),
        ("        while (s < top && unichar_isspace(*s)) {\n            s++;\n        }\n        while (s < top && splits != 0) {\n",
         f"        while (s < top && {TICK}unichar_isspace(*s)) {{\n            s++;\n        }}\n        while (s < top && splits != 0) {{\n"),
        ("                if (splits == 0 || s + sep_len > top) {\n",
         "                (void)dev_vm_tick(&ticks);\n                if (splits == 0 || s + sep_len > top) {\n"),
        ("    while (s < top) {\n        const byte *start = s;\n        size_t match = 0;\n        while (s < top) {\n",
         "    uint32_t ticks = 0;\n    while (s < top) {\n        const byte *start = s;\n        size_t match = 0;\n"
         "        while (s < top && dev_vm_tick(&ticks)) {\n"),
        ("            s = last - sep_len;\n            for (;;) {\n",
         "            s = last - sep_len;\n            uint32_t ticks = 0;\n            for (;;) {\n                (void)dev_vm_tick(&ticks);\n"),
        ("    for (size_t len = orig_str_len; len > 0; len--) {\n",
         "    uint32_t ticks = 0;\n    for (size_t len = orig_str_len; len > 0 && dev_vm_tick(&ticks); len--) {\n"),
        ("            *num = *num * 10 + (*str - '0');\n",
         "            *num = *num > (INT_MAX - 9) / 10 ? INT_MAX : *num * 10 + (*str - '0');\n"),
        ("    for (const byte *haystack_ptr = start; haystack_ptr + needle_len <= end;) {\n",
         "    uint32_t ticks = 0;\n"
         "    for (const byte *haystack_ptr = start; haystack_ptr + needle_len <= end && dev_vm_tick(&ticks);) {\n"),
        ("        while (num_replacements_done != (size_t)max_rep",
         f"        uint32_t ticks = 0;\n        while ({TICK}num_replacements_done != (size_t)max_rep"),
    ],
    "py/objstrunicode.c": [
        ("    bool has_single_quote = false;\n", work("str_len") + "    bool has_single_quote = false;\n"),
        ("    const byte *s, *top = self_data + self_len;\n", "    const byte *s, *top = self_data + self_len;\n    uint32_t ticks = 0;\n"),
        ("        for (s = top - 1; i; --s) {\n", "        for (s = top - 1; i && dev_vm_tick(&ticks); --s) {\n"),
        ("        while (1) {\n            // First check out-of-bounds\n",
         "        while (dev_vm_tick(&ticks)) {\n            // First check out-of-bounds\n"),
    ],
    "py/unicode.c": [
        ("    uint8_t need = 0;\n", work("len") + "    uint8_t need = 0;\n"),
        ("    mp_uint_t i = 0;\n    while (ptr > s) {\n", "    mp_uint_t i = 0;\n" + work("ptr - s") + "    while (ptr > s) {\n"),
        ("    size_t charlen = 0;\n", "    size_t charlen = 0;\n" + work("len")),
    ],
    "py/qstr.c": [
        ("    size_t hash = 5381;\n", "    size_t hash = 5381;\n" + work("len")),
        # Fixed strings are found by their hashes, which say of most others that they are none.
        ("qstr qstr_find_strn(const char *str, size_t str_len) {\n",
         "#ifndef NO_QSTR\n#include \"genhdr/qstrknown.h\"\n#endif\n\n"
         "static qstr known_find(const char *str, size_t str_len, size_t str_hash) {\n"
         "    size_t at = str_hash % DEV_VM_KNOWN_PLACES;\n"
         "    for (qstr q = 0; (q = dev_vm_known_places[at]) != 0; at = (at + 1) % DEV_VM_KNOWN_PLACES) {\n"
         "        const qstr_pool_t *pool = q < MP_QSTRnumber_of_static ? &mp_qstr_const_pool_static : &mp_qstr_const_pool;\n"
         "        qstr place = q - pool->total_prev_len;\n"
         "        if (pool->lengths[place] == str_len && memcmp(pool->qstrs[place], str, str_len) == 0) {\n"
         "            return q;\n"
         "        }\n"
         "    }\n"
         "    return MP_QSTRnull;\n"
         "}\n\n"
         "qstr qstr_find_strn(const char *str, size_t str_len) {\n"),
        ("        size_t low = 0;\n        size_t high = pool->len - 1;\n",
         "        if (pool == &CONST_POOL) {\n"
         "            return known_find(str, str_len, str_hash);\n        }\n"
         "        size_t low = 0;\n        size_t high = pool->len - 1;\n"
         "        dev_vm_quiet(pool->len / DEV_VM_TEXT_PER_UNIT);\n"),
    ],
    "py/bc.c": [
        ("            for (size_t j = 0; j < n_pos_args + n_kwonly_args; j++) {\n",
         "            uint32_t ticks = 0;\n"
         "            for (size_t j = 0; j < n_pos_args + n_kwonly_args && dev_vm_tick(&ticks); j++) {\n"),
    ],
    "py/objnamedtuple.c": [
        ("    for (size_t i = 0; i < type->n_fields; i++) {\n",
         "    uint32_t ticks = 0;\n    for (size_t i = 0; i < type->n_fields && dev_vm_tick(&ticks); i++) {\n"),
    ],
    "py/objtype.c": [
        ("                return MP_OBJ_NEW_SMALL_INT((mp_uint_t)self_in);\n",
         "                return MP_OBJ_NEW_SMALL_INT(dev_vm_place((uintptr_t)self_in));\n"),
        ("    assert(lookup->dest[1] == MP_OBJ_NULL);\n    for (;;) {\n",
         "    assert(lookup->dest[1] == MP_OBJ_NULL);\n    uint32_t ticks = 0;\n    for (;;) {\n        (void)dev_vm_tick(&ticks);\n"),
        ("    for (size_t i = 0; i < bases_len; i++) {\n",
         "    uint32_t ticks = 0;\n    for (size_t i = 0; i < bases_len && dev_vm_tick(&ticks); i++) {\n"),
        ("        for (size_t i = 0; i < locals_ptr->map.alloc; i++) {\n",
         "        for (size_t i = 0; i < locals_ptr->map.alloc && dev_vm_tick(&ticks); i++) {\n"),
        # A lattice of classes is walked through by every way there is.
        ("bool mp_obj_is_subclass_fast(mp_const_obj_t object, mp_const_obj_t classinfo) {\n",
         "bool mp_obj_is_subclass_fast(mp_const_obj_t object, mp_const_obj_t classinfo) {\n" + CHECK),
        ("    for (;;) {\n        if (object == classinfo) {\n",
         "    uint32_t ticks = 0;\n    for (;;) {\n        (void)dev_vm_tick(&ticks);\n        if (object == classinfo) {\n"),
        ("    int count = 0;\n    for (;;) {\n",
         "    int count = 0;\n" + CHECK + "    uint32_t ticks = 0;\n    for (;;) {\n        (void)dev_vm_tick(&ticks);\n"),
    ],
    "py/objboundmeth.c": [
        ("            return MP_OBJ_NEW_SMALL_INT((mp_uint_t)self->self ^ (mp_uint_t)self->meth);\n",
         "            return MP_OBJ_NEW_SMALL_INT(dev_vm_place((uintptr_t)self->self) ^ dev_vm_place((uintptr_t)self->meth));\n"),
        # Any number of arguments would go to the C stack when the heap is full.
        ("        args2 = m_new_maybe(mp_obj_t, 1 + n_total);\n", "        args2 = m_new(mp_obj_t, 1 + n_total);\n"),
    ],
    "py/builtinimport.c": [
        ("    for (size_t i = 0; i < path_num; i++) {\n", "    for (size_t i = 0; i < path_num; i++) {\n        dev_vm_step();\n"),
        ("    char *new_mod = mp_local_alloc(new_module_name_len);\n", "    char *new_mod = m_new(char, new_module_name_len);\n"),
    ],
    "py/mpz.c": [
        ("    if (ilen < jlen) {\n        return -1;\n", work("ilen") + "    if (ilen < jlen) {\n        return -1;\n"),
        ("    mp_uint_t val = 0;\n    mpz_dig_t *d = z->dig + z->len;\n",
         work("z->len") + "    mp_uint_t val = 0;\n    mpz_dig_t *d = z->dig + z->len;\n"),
        ("    mp_float_t val = 0;\n    mpz_dig_t *d = i->dig + i->len;\n",
         work("i->len") + "    mp_float_t val = 0;\n    mpz_dig_t *d = i->dig + i->len;\n"),
        ("    for (; klen > 0; --klen, ++idig, ++kdig) {\n        mp_cstack_check();\n",
         "    for (; klen > 0; --klen, ++idig, ++kdig) {\n        mp_cstack_check();\n    " + work("jlen")),
        ("    while (*num_len > den_len) {\n        mp_cstack_check();\n",
         "    while (*num_len > den_len) {\n        mp_cstack_check();\n    " + work("den_len")),
        ("    for (; cur < top; ++cur) {\n        mp_cstack_check();\n",
         "    for (; cur < top; ++cur) {\n        mp_cstack_check();\n    " + work("z->len")),
        ("        mpz_dbl_dig_t a = 0;\n        mp_cstack_check();\n",
         "        mpz_dbl_dig_t a = 0;\n        mp_cstack_check();\n    " + work("ilen")),
        ("    while (n->len > 0) {\n        if ((n->dig[0] & 1) != 0) {\n            mpz_mul_inpl(dest, dest, x);\n        }\n",
         "    while (n->len > 0) {\n    " + CHECK + "    " + work("n->len")
         + "        if ((n->dig[0] & 1) != 0) {\n            mpz_mul_inpl(dest, dest, x);\n        }\n"),
        ("    while (n->len > 0) {\n        if ((n->dig[0] & 1) != 0) {\n            mpz_mul_inpl(dest, dest, x);\n            mpz_divmod",
         "    while (n->len > 0) {\n    " + CHECK + "    " + work("n->len")
         + "        if ((n->dig[0] & 1) != 0) {\n            mpz_mul_inpl(dest, dest, x);\n            mpz_divmod"),
    ],
    "extmod/modheapq.c": [
        # A comparison may have changed the heap.
        ("static void heapq_heap_siftdown(",
         "static bool heapq_less(mp_obj_list_t *heap, mp_uint_t len, mp_obj_t a, mp_obj_t b, mp_obj_t wanted) {\n"
         "    dev_vm_step();\n"
         "    bool is = mp_binary_op(MP_BINARY_OP_LESS, a, b) == wanted;\n"
         "    if (heap->len != len) {\n"
         '        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("heap changed while it was sorted"));\n'
         "    }\n"
         "    return is;\n"
         "}\n\n"
         "static void heapq_heap_siftdown("),
        ("        if (mp_binary_op(MP_BINARY_OP_LESS, item, parent) == mp_const_true) {\n",
         "        if (heapq_less(heap, heap->len, item, parent, mp_const_true)) {\n"),
        ("mp_binary_op(MP_BINARY_OP_LESS, heap->items[child_pos], heap->items[child_pos + 1]) == mp_const_false)",
         "heapq_less(heap, end_pos, heap->items[child_pos], heap->items[child_pos + 1], mp_const_false))"),
        ("    heap->items[heap->len] = MP_OBJ_NULL; //", "    heap->items[heap->len] = mp_const_none; //"),
        ("    for (mp_uint_t i = heap->len / 2; i > 0;) {\n        heapq_heap_siftup(heap, --i);\n",
         "    for (mp_uint_t i = heap->len / 2; i > 0;) {\n        dev_vm_step();\n        heapq_heap_siftup(heap, --i);\n"),
    ],
    "extmod/modre.c": [
        ("    const char *re_str = mp_obj_str_get_str(args[0]);\n",
         "    const char *re_str = mp_obj_str_get_str(args[0]);\n" + work("strlen(re_str)")),
        ("        while (*repl != '\\0') {\n", "        uint32_t ticks = 0;\n        while (*repl != '\\0' && dev_vm_tick(&ticks)) {\n"),
        # Room on the C stack for any number of groups; the match of `sub` even outlived its frame.
        ("    const char **caps = mp_local_alloc(caps_num * sizeof(char *));\n",
         "    const char **caps = m_new(const char *, caps_num);\n"),
        ("mp_local_alloc(sizeof(mp_obj_match_t) + caps_num * sizeof(char *))",
         "m_new_obj_var(mp_obj_match_t, caps, char *, caps_num)"),
    ],
    "lib/re1.5/compilecode.c": [
        # A range at the end of the pattern went past it.
        ("                    re += 2;\n                }\n            emit_char_pair:\n",
         "                    re += 2;\n                    if (!*re) return NULL;\n                }\n            emit_char_pair:\n"),
    ],
    "extmod/modjson.c": [
        ("    for (;;) {\n    cont:\n", "    uint32_t ticks = 0;\n    for (;;) {\n    cont:\n        (void)dev_vm_tick(&ticks);\n"),
        ("for (; !S_END(s) && S_CUR(s) != '\"';) {\n", "for (; dev_vm_tick(&ticks) && !S_END(s) && S_CUR(s) != '\"';) {\n"),
        ("                    vstr_add_byte(&vstr, cur);\n", "                    (void)dev_vm_tick(&ticks);\n                    vstr_add_byte(&vstr, cur);\n"),
        ("    while (unichar_isspace(S_CUR(s))) {\n", "    while (dev_vm_tick(&ticks) && unichar_isspace(S_CUR(s))) {\n"),
    ],
    "extmod/modbinascii.c": [
        ("    byte *in = bufinfo.buf;\n\n", "    byte *in = bufinfo.buf;\n" + work("bufinfo.len") + "\n"),
        ("    byte *in = bufinfo.buf, *out = (byte *)vstr.buf;\n",
         "    byte *in = bufinfo.buf, *out = (byte *)vstr.buf;\n" + work("bufinfo.len")),
    ],
    "py/stream.c": [
        ("        mp_obj_t line = stream_unbuffered_readline(1, &self);\n",
         "        dev_vm_step();\n        mp_obj_t line = stream_unbuffered_readline(1, &self);\n"),
        ("    while (max_size == -1 || max_size-- != 0) {\n",
         "    uint32_t ticks = 0;\n    while (dev_vm_tick(&ticks) && (max_size == -1 || max_size-- != 0)) {\n"),
        ("            for (mp_uint_t off = last_buf_offset;;) {\n",
         "            uint32_t ticks = 0;\n            for (mp_uint_t off = last_buf_offset;;) {\n                (void)dev_vm_tick(&ticks);\n"),
    ],
    "lib/re1.5/recursiveloop.c": [
        ('#include "re1.5.h"\n', '#include "lib/re1.5/re1.5.h"\n'),
        ("\tfor(;;) {\n", "\tuint32_t ticks = 0;\n\tfor(;;) {\n\t\t(void)dev_vm_tick(&ticks);\n"),
    ],
    "py/bc.h": [
        ("    while (line_info < line_info_top) {\n", work("line_info_top - line_info") + "    while (line_info < line_info_top) {\n"),
    ],
    "py/modbuiltins.c": [
        ("        for (size_t i = MP_QSTR_ + 1; i < nqstr; ++i) {\n",
         "        uint32_t ticks = 0;\n        for (size_t i = MP_QSTR_ + 1; i < nqstr && dev_vm_tick(&ticks); ++i) {\n"),
    ],
    "py/mpprint.c": [
        ("                chrs += mp_print_int(print, va_arg(args, unsigned long int), 0, 16, 'a', flags, fill, width);\n                break;\n            #if",
         "                chrs += mp_print_int(print, dev_vm_place(va_arg(args, unsigned long int)), 0, 16, 'a', flags, fill, width);\n"
         "                break;\n            #if"),
        ("        while (left_pad > 0) {\n", "        while (left_pad > 0) {\n            dev_vm_step();\n"),
        ("        while (right_pad > 0) {\n", "        while (right_pad > 0) {\n            dev_vm_step();\n"),
    ],
    "py/parsenum.c": [
        ("    bool neg = false;\n    mp_obj_t ret_val;\n", work("len") + "    bool neg = false;\n    mp_obj_t ret_val;\n"),
        ("    const char *top = str + len;\n    mp_float_t dec_val = 0;\n",
         work("len") + "    const char *top = str + len;\n    mp_float_t dec_val = 0;\n"),
    ],
    "py/objint_mpz.c": [
        # What is left of a division by nothing: its digits are looked for behind the number's end.
        ("        mpz_pow3_inpl(&(res_p->mpz), lhs, rhs, mod);\n",
         "        if (mpz_is_zero(mod)) {\n"
         "            mp_raise_ValueError(MP_ERROR_TEXT(\"pow() of modulus 0\"));\n"
         "        }\n"
         "        mpz_pow3_inpl(&(res_p->mpz), lhs, rhs, mod);\n"),
        ("    mp_obj_int_t *o = MP_OBJ_TO_PTR(o_in);\n    switch (op) {\n",
         "    mp_obj_int_t *o = MP_OBJ_TO_PTR(o_in);\n" + work("mp_obj_is_exact_type(o_in, &mp_type_int) ? o->mpz.len : 0") + "    switch (op) {\n"),
        ("    if (op >= MP_BINARY_OP_INPLACE_OR && op < MP_BINARY_OP_CONTAINS) {\n",
         work("zlhs->len + zrhs->len") + "    if (op >= MP_BINARY_OP_INPLACE_OR && op < MP_BINARY_OP_CONTAINS) {\n"),
        ("    mpz_set_from_bytes(&o->mpz, big_endian, len, buf);\n",
         work("len") + "    mpz_set_from_bytes(&o->mpz, big_endian, len, buf);\n"),
        ("    return mpz_as_bytes(&self->mpz, big_endian, self->mpz.neg, len, buf);\n",
         work("len") + "    return mpz_as_bytes(&self->mpz, big_endian, self->mpz.neg, len, buf);\n"),
    ],
    "py/binary.c": [
        # Elements that are addresses: a script could make any object out of bytes, and read any memory.
        ("                case 'P':\n                case 'O':\n                case 'S':\n"
         "                    size = sizeof(void *);\n                    break;\n", ""),
        ("                case 'P':\n                case 'O':\n                case 'S':\n"
         "                    align = alignof(void *);\n                    size = sizeof(void *);\n                    break;\n", ""),
    ],
    # An index is a number: an object's __int__ may change what it is an index of, after its length was taken.
    "py/obj.c": [
        # An address tells where the process lies, and differs from process to process.
        ("    mp_int_t id = (mp_int_t)o_in;\n    if (!mp_obj_is_obj(o_in)) {\n",
         "    mp_int_t id = mp_obj_is_obj(o_in) ? (mp_int_t)dev_vm_place((uintptr_t)o_in) : (mp_int_t)o_in;\n"
         "    if (!mp_obj_is_obj(o_in)) {\n"),
        ("    } else if (!mp_obj_get_int_maybe(index, &i)) {\n",
         "    } else if (!mp_obj_is_integer(index) || !mp_obj_get_int_maybe(index, &i)) {\n"),
    ],
    "py/objslice.c": [
        ('#include "py/runtime.h"\n',
         '#include "py/runtime.h"\n\n'
         "static mp_int_t slice_int(mp_obj_t value) {\n"
         "    if (!mp_obj_is_integer(value)) {\n"
         '        mp_raise_TypeError(MP_ERROR_TEXT("slice indices must be integers"));\n'
         "    }\n"
         "    return mp_obj_get_int(value);\n"
         "}\n"
         "#define mp_obj_get_int slice_int\n"),
    ],
    # The compiler works out constants itself; what would be a long integer of any length is left to the run, which
    # has a budget.
    "py/parse.c": [
        ("            if (op == MP_BINARY_OP_POWER && mp_obj_int_sign(arg1) < 0) {\n",
         "            if (op == MP_BINARY_OP_POWER && (mp_obj_int_sign(arg1) < 0 || !mp_obj_is_small_int(arg0)\n"
         "                || !mp_obj_is_small_int(arg1) || MP_OBJ_SMALL_INT_VALUE(arg1) > DEV_VM_FOLD_MAX)) {\n"),
        ("                if (rhs_sign < 0) {\n",
         "                if (rhs_sign < 0 || !mp_obj_is_small_int(arg1) || MP_OBJ_SMALL_INT_VALUE(arg1) > DEV_VM_FOLD_MAX) {\n"),
    ],
    # The counts of a scope's names have 16 bits. The compiler library refuses sooner (DEV_VM_NAMES_MAX).
    "py/scope.c": [
        ('#include "py/scope.h"\n', '#include "py/scope.h"\n#include "py/runtime.h"\n'),
        ("    // make sure we have enough memory\n",
         "    if (scope->id_info_len > UINT16_MAX - MICROPY_ALLOC_SCOPE_ID_INC - 1) {\n"
         "        mp_raise_msg(&mp_type_SyntaxError, MP_ERROR_TEXT(\"too many names\"));\n    }\n"
         "    // make sure we have enough memory\n"),
    ],
}
