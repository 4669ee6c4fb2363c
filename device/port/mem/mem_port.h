// The memory port of the device runtime, for tests: a clock moved by hand, a storage that fails and
// forgets on demand, and an HTTP port and a task port that keep what was asked until the test
// answers.
//
// Storage keeps two images: what was written and what is durable. mem_storage_crash throws away
// the difference, as a kill with a power cut does. Any call can be made to fail, or to be the last
// one before the crash. Nothing here is thread-safe.
#ifndef MEM_PORT_H
#define MEM_PORT_H

#include "base/span.h"
#include "device/port.h"
#include "wire/trust/meta.h"

#define MEM_BLOBS_MAX     64
#define MEM_EXCHANGES_MAX 8
#define MEM_PATH_MAX      192
#define MEM_TEXT_MAX      16384

struct mem_clock {
    uint64_t mono_us;
    uint64_t wall_us;
};

struct mem_blob {
    struct wire_sha256 name;
    uint8_t *bytes;
    size_t size;
    uint64_t reserved; // for the whole of it; 0: not
    bool used;
    bool sealed;
    uint32_t maps; // mapped now
};

struct mem_storage {
    uint8_t state[DEV_STATE_BYTES_MAX];
    size_t state_bytes;
    bool has_state;
    uint8_t before[DEV_STATE_BYTES_MAX]; // the record saved before it
    size_t before_bytes;
    bool has_before;
    struct mem_blob blobs[MEM_BLOBS_MAX];
    // Fault injection. Every call of the port that changes storage counts as one operation.
    uint64_t operations;
    uint64_t fail_at;   // this operation fails with fail_status; 0: none
    uint64_t fail_from; // this and all later ones fail; 0: none
    enum base_status fail_status;
    bool lose_partials;   // a crash loses unsealed content entirely, else it stays
    uint64_t bytes_limit; // FULL beyond; 0: none
    uint64_t saves;
};

enum mem_exchange_state {
    MEM_EXCHANGE_FREE,
    MEM_EXCHANGE_OPEN,
};

struct mem_exchange {
    enum mem_exchange_state state;
    uint32_t id;
    enum dev_method method;
    char path[MEM_PATH_MAX];
    char device[32];
    char profile[MEM_TEXT_MAX];
    char nonce[WIRE_ASK_TEXT_MAX + 1];
    char content_type[64];
    char idempotency_key[40];
    bool urgent;
    uint8_t body[MEM_TEXT_MAX];
    size_t body_bytes;
    uint64_t range_from;
    struct wire_sha256 dictionary; // of a request for a delta, else zero
    uint32_t delta_codings;
    bool stream;
};

struct mem_http {
    struct mem_exchange exchanges[MEM_EXCHANGES_MAX];
    uint32_t started;
    uint32_t cancelled;
    enum base_status refuse; // what start answers, unless OK
};

struct mem_run {
    uint32_t run; // 0: none under way
    struct wire_sha256 version;
    uint64_t run_index;
    uint32_t file_count;
    struct wire_sha256 last_file;
    bool shadow;
    uint64_t token;    // of its input; 0: none
    bool all_verified; // every file's bytes had the digest it came with
};

struct mem_task {
    struct mem_run current;
    uint32_t started;
    uint32_t cancelled;
    enum base_status refuse;
};

struct mem_port {
    // Calls that act on the outside (storage changes, requests, runs), and the one at which the
    // process is killed: it and all later ones do nothing. 0: none.
    uint64_t calls;
    uint64_t kill_at;
    bool killed;
    struct mem_clock clock;
    struct base_random_port random;
    uint64_t random_state;
    struct mem_storage storage;
    struct mem_http http;
    struct mem_task task;
};

// Fills `out_ports` with a table over `port`, which must outlive it. `port` is reset.
void mem_port_init(struct mem_port *port, uint64_t seed, struct dev_ports *out_ports);
void mem_port_done(struct mem_port *port);

void mem_clock_advance(struct mem_port *port, uint64_t us);

// What a kill leaves: unsealed and unsaved content may be gone, exchanges and runs are.
void mem_port_crash(struct mem_port *port);
struct mem_blob *mem_blob_find(struct mem_port *port, const struct wire_sha256 *name);
uint32_t mem_blob_count(const struct mem_port *port);
// Puts a blob there as if an earlier life had (part of) it.
void mem_blob_put(struct mem_port *port, const struct wire_sha256 *name, const uint8_t *bytes,
                  size_t size, bool sealed);

// The open exchange whose path starts with `prefix`; NULL: none.
struct mem_exchange *mem_exchange_find(struct mem_port *port, const char *prefix);
// Answers an open exchange wholly: head, body, end.
void mem_exchange_answer(struct mem_port *port, struct dev_runtime *runtime,
                         struct mem_exchange *exchange, const struct dev_response_head *head,
                         struct base_span body);
// Ends an open exchange, without a head of its own.
void mem_exchange_end(struct mem_port *port, struct dev_runtime *runtime,
                      struct mem_exchange *exchange, enum base_status status);

#endif
