// A device runtime on the memory port, and a small gateway that answers it: signed offers, blobs by
// range, reports kept in a ledger. Knobs make the gateway and the content misbehave.
#ifndef DEVICE_RIG_H
#define DEVICE_RIG_H

#include "base/prng.h"
#include "device/device.h"
#include "mem/mem_port.h"
#include "wire/trust/offer.h"

#include <openssl/evp.h>

#define RIG_VERSIONS_MAX 6
#define RIG_FILES_MAX    4
#define RIG_FILE_MAX     200000
#define RIG_OFFERS_MAX   8
#define RIG_KEYS_MAX     3
#define RIG_LEDGER_MAX   4096

struct rig_file {
    uint8_t *bytes;
    size_t size;
    struct wire_sha256 digest;
};

struct rig_version {
    struct wire_sha256 manifest;
    uint8_t bytes[2048];
    size_t size;
    struct rig_file files[RIG_FILES_MAX];
    uint32_t file_count;
    enum wire_outcome_kind ends;    // how its runs end
    const char *result;             // what they give; NULL: nothing
    const char *failure;            // in their words, where they fail; NULL: some
    struct dev_task_place place;    // likewise
    uint32_t refused;               // records they may not let go
    struct wire_cloud_counts cloud; // what each decides
    uint64_t duration_us;           // 0: 1500
    uint32_t heap_peak_bytes;
    uint64_t tokens; // sum of those its runs were given
    uint32_t triggered_runs;
    uint32_t shadow_runs; // of `runs` those nobody is told of
    uint32_t runs;        // really ended, not killed
};

struct rig_envelope {
    uint8_t bytes[WIRE_STATEMENT_BYTES_MAX];
    size_t size;
};

struct rig_statement {
    const char *task;
    uint32_t version; // index
    uint64_t counter;
    uint64_t floor;
    uint64_t rollout_id;
    uint64_t salt;
    uint16_t max_bucket; // 0 takes 10000
    uint8_t stage;       // 0 takes 1, beta
    uint64_t arm_salt;   // all 0: no arm
    uint16_t arm_from;
    uint16_t arm_to;
    uint64_t issued_s;  // 0 takes the wall clock
    uint64_t expires_s; // 0 takes one day later
    uint32_t signers;   // bit mask of keys; 0 takes the first
    bool key_twice;     // the first key signs twice (frame built by hand)
    uint8_t of_kind;    // the payload says this kind instead; 0: its own
    bool shadow;        // for a shadow stage
    uint16_t slow_percent;
    uint16_t memory_percent;
    struct wire_tolerances tolerances;
};

struct rig_outcome {
    uint32_t epoch;
    uint64_t seq;
    struct wire_outcome outcome;
    char detail[WIRE_REPORT_DETAIL_MAX + 1];
};

struct rig {
    struct mem_port port;
    struct dev_ports ports;
    struct dev_config config;
    void *memory;
    struct dev_runtime *runtime;
    EVP_PKEY *keys[RIG_KEYS_MAX];
    struct rig_version versions[RIG_VERSIONS_MAX];
    uint32_t version_count;
    struct rig_envelope offers[RIG_OFFERS_MAX];
    uint32_t offer_count;
    uint8_t offer_flags;
    struct wire_again marks[WIRE_AGAIN_MAX]; // of every answer
    uint32_t mark_count;
    uint32_t next_checkin_s; // of answers that are no 204
    // A device with a root asks somebody else (role_rig.h). NULL: not asked.
    void *roles;
    void (*direct)(struct rig *rig, const struct mem_exchange *exchange,
                   struct wire_offers *offers); // puts its answer in front
    void (*meta)(struct rig *rig, struct mem_exchange *exchange);
    // Exclusive files (exclusive_rig.h). NULL: versions have none, nobody is asked.
    void *exclusive_rig;
    void (*version_extra)(struct rig *rig, uint32_t index, struct wire_manifest *manifest);
    void (*exclusive)(struct rig *rig, struct mem_exchange *exchange);
    bool (*own_content)(const struct rig *rig, const struct wire_sha256 *name,
                        const uint8_t **out_bytes, size_t *out_size);
    // Answers who asks for all of a version. NULL: nobody knows such a question.
    void (*whole)(struct rig *rig, struct mem_exchange *exchange);
    // Misbehaviour, counted down where it is a number.
    int corrupt_bodies;  // so many blob bodies get a flipped byte
    int truncate_bodies; // so many end after half, with OK
    int break_bodies;    // so many end after half, with CLOSED
    int endless_bodies;  // so many go on past their length
    int ignore_ranges;   // so many get a 200 although a range was asked for
    int refuse_ranges;   // so many ranges get a 416
    int wrong_ranges;    // so many get a 206 from elsewhere
    int stall_bodies;    // so many never end
    size_t cut_from;     // all end with CLOSED after so many bytes at least ...
    size_t cut_to;       // ... and fewer than that; 0: none is cut
    struct base_prng cuts;
    int blob_status;     // answer all blobs with this status
    bool deltas;         // requests with a dictionary are answered with dcz
    bool hold_deltas;    // requests with a dictionary are never answered
    bool pieces;         // ... with wdelta, asked for or not
    bool spoil_deltas;   // body misbehaviour above is for deltas only
    int wrong_deltas;    // so many of them made with another dictionary
    int large_deltas;    // so many padded to more than the content
    int checkin_status;  // answer check-ins with this status
    size_t checkin_step; // ... in pieces of so many bytes, and a tick between two; 0: in one
    size_t checkin_cut;  // ... without the last so many bytes, and the connection is lost
    int report_status;   // answer reports with this status
    uint32_t retry_after_s;
    bool say_no_length;
    size_t chunk;       // bytes per body callback; 0: all at once
    uint64_t pause_us;  // between two of them, when the runtime looks at the time
    size_t burst;       // bytes of each body before the first pause
    bool hold_checkins; // they are not answered yet
    bool hold_runs;
    bool hold_shadows;       // of shadows alone
    bool run_on;             // rig_run goes on for its whole time, even when the device is idle
    const char *declaration; // of versions added from now on; NULL: none
    size_t declaration_bytes;
    const uint8_t *script; // first file of versions added from now on; NULL: made up
    size_t script_bytes;
    const uint8_t *model; // second file, as `script`
    size_t model_bytes;
    // What the gateway saw.
    struct rig_outcome ledger[RIG_LEDGER_MAX];
    uint32_t ledger_count;
    uint32_t doubled;  // outcomes that came again, and were recognised
    uint32_t checkins; // requests of their own
    uint32_t reports;
    uint32_t blob_requests;
    uint32_t range_requests;
    uint32_t delta_answers;
    uint32_t delta_codings; // of the last request with a dictionary
    uint64_t blob_bytes;
    bool ran_unverified;
    uint32_t last_run_files; // of the run that ended last
    struct wire_sha256 last_run_file;
    char profile[1024];
};

// Signs domain, type and payload (its hash where it is hashed) into an envelope's signature.
void rig_sign_envelope(EVP_PKEY *key, struct wire_envelope *envelope);

// Device id 0x0123456789abcdef, two trusted keys of three, tasks_max 4, outcomes_max 16,
// crash_limit 3. Change rig->config before rig_boot.
void rig_init(struct rig *rig);
void rig_done(struct rig *rig);
// Adds a version of "demo/score" with `file_count` files of about `file_bytes` bytes.
uint32_t rig_version_add(struct rig *rig, const char *task, uint32_t file_count, size_t file_bytes,
                         uint16_t abi, uint32_t every_s);
void rig_sign(struct rig *rig, const struct rig_statement *statement, struct rig_envelope *out);
// Replaces what check-ins are answered with.
void rig_offer(struct rig *rig, const struct rig_statement *statement);
void rig_offer_add(struct rig *rig, const struct rig_statement *statement);
void rig_offer_none(struct rig *rig);
void rig_offer_stop(struct rig *rig, const char *task); // replaces likewise
// Every answer marks `task` from now on, and nothing else.
void rig_mark(struct rig *rig, const char *task, uint64_t rollout_id, uint8_t attempt);

// Makes a fresh runtime over what storage holds.
void rig_boot(struct rig *rig);
enum base_status rig_try_boot(struct rig *rig);
// The process dies: only what is durable stays.
void rig_kill(struct rig *rig);
// Serves the runtime until it is idle, was killed by the port, or `us` of virtual time have gone.
void rig_run(struct rig *rig, uint64_t us);
// What a check-in is answered with; 0: nothing.
size_t rig_offers_encode(struct rig *rig, const struct mem_exchange *exchange, uint8_t *out,
                         size_t capacity);
// The answer to a check-in as the knobs say: in one piece or in many, to its end or not.
void rig_checkin_send(struct rig *rig, struct mem_exchange *exchange, struct base_span all);
void rig_report_take(struct rig *rig, const uint8_t *bytes, size_t size); // into the ledger

// ride_rig.c: the gateway's answer to a ride; `report_status` is that of its report.
void rig_ride_answer(struct rig *rig, const struct dev_ride *ride);
// Ends it with an answer of these words under its token.
void rig_ride_end(struct rig *rig, const struct dev_ride *ride, const char *words,
                  struct base_str offer);
struct base_str rig_ride_header(const struct dev_ride *ride, const char *name); // empty: none
void rig_checkin(struct rig *rig); // asks for a check-in now, then rig_run for 10 minutes

// Content by its name in hex, of any version; false: there is none.
bool rig_content(const struct rig *rig, struct base_str hex, const uint8_t **out_bytes,
                 size_t *out_size);

// Answers with content as blobs are served, misbehaviour and all.
void rig_serve_content(struct rig *rig, struct mem_exchange *exchange, struct base_str hex);
void rig_answer(struct rig *rig, struct mem_exchange *exchange, int status);

// Views for assertions.
int rig_active(const struct rig *rig, const char *task); // version index, -1: none
int rig_kept(const struct rig *rig, const char *task);
uint32_t rig_count(const struct rig *rig, enum wire_outcome_kind kind);
const struct rig_outcome *rig_last(const struct rig *rig, enum wire_outcome_kind kind);

#endif
