// The key-value port in memory, for tests and the simulator: sorted rows, and every way a store can
// fail. Commits are counted; the nth can fail, from the nth on all can, and the process can be
// killed at one: before it took effect or just after, so that it is in the store and nobody was
// told. A killed store refuses everything until it is revived. One thread.
#ifndef MEM_KV_H
#define MEM_KV_H

#include "pipeline/storage/collect.h"

struct mem_kv_row {
    uint8_t *bytes; // key, then value
    uint32_t key_size;
    uint32_t value_size;
};

struct mem_kv_space {
    struct mem_kv_row *rows; // by key
    uint32_t count;
    uint32_t capacity;
};

struct mem_kv {
    struct mem_kv_space spaces[DEV_SPACE_COUNT];
    uint64_t bytes;       // of keys and values
    uint64_t bytes_limit; // FULL beyond it; 0: none
    uint64_t commits;     // tried
    uint64_t changes;     // applied
    uint64_t gets;
    uint64_t scans;
    uint64_t fail_at; // this commit fails; 0: none
    uint64_t fail_from;
    enum base_status fail_status; // IO unless set
    enum base_status read_status; // what get and scan answer; OK: truly
    uint64_t kill_at;             // this commit kills; 0: none
    bool kill_applied;            // after it took effect
    bool killed;
};

void mem_kv_init(struct mem_kv *kv);
void mem_kv_done(struct mem_kv *kv);
struct dev_kv_port mem_kv_port(struct mem_kv *kv);
// A new process finds what was committed. Faults are cleared.
void mem_kv_revive(struct mem_kv *kv);
// Makes `to`, which was initialised, hold what `from` holds: a backup, a cloned phone.
void mem_kv_copy(struct mem_kv *to, const struct mem_kv *from);
// Damages one byte of a row's value; NOT_FOUND.
BASE_NODISCARD enum base_status mem_kv_damage(struct mem_kv *kv, enum dev_space space,
                                              const void *key, size_t key_size, size_t at);

#endif
