// A device of the model: the runtime that ships, on the simulator's storage, ports that count calls
// so that it can be killed at any of them, and a line to the gateway that can be cut. Its requests
// reach the gateway's core as they are started; the answers come with the next turn.
#ifndef MODEL_DEVICE_H
#define MODEL_DEVICE_H

#include "model_gateway.h"
#include "model_exclusive.h"
#include "model_record.h"

#include "device/device.h"
#include "ports/sim_storage.h"
#include "wire/profile.h"

#define MODEL_EXCHANGES 8

enum model_cut { MODEL_CUT_REQUEST = 1, MODEL_CUT_ANSWER };

// The versions of the world, made once.
struct model_content {
    struct wire_sha256 manifest;
    struct wire_sha256 script;
    uint8_t manifest_bytes[512];
    size_t manifest_size;
    char script_text[48];
    size_t script_size;
    uint32_t every_s;
    struct model_exclusive *exclusive; // NULL: nothing for single devices
};

struct model_device;

// What all devices of a world have in common.
struct model_ground {
    struct model_gateway *gateway;
    struct base_clock_port clock;
    struct sim_store *store;
    uint64_t seed;
    const uint8_t *root;
    size_t root_bytes;
    struct model_content content[MODEL_TASKS][MODEL_VERSIONS];
    uint64_t unproven_runs; // of bytes that are not the version's, or not the device's
    bool restored;          // the gateway is a copy
    // Behind every request: what was answered.
    void (*heard)(void *ctx, const struct model_device *device, const struct gw_exchange *exchange);
    void *heard_ctx;
};

struct model_pending {
    struct model_exchange exchange;
    uint32_t id;
    bool used;
    bool lost; // nothing comes back
};

struct model_saved {
    uint8_t *state; // heap; NULL: none
    uint16_t state_bytes;
    uint32_t image;
};

struct model_device {
    struct model_ground *ground;
    uint64_t id;
    char hex[WIRE_DEVICE_HEX + 1];
    struct model_attrs attrs;
    bool certified;
    bool rooted;
    bool away;
    int64_t skew_s; // of its clock, from the gateway's
    bool fails[MODEL_TASKS][MODEL_VERSIONS];
    uint32_t failed[MODEL_TASKS]; // bit n: version n ever failed here
    uint32_t boots;
    struct sim_disk disk;
    struct sim_storage storage;
    struct dev_storage_port under; // the simulator's, behind the counting one
    struct model_saved saved;
    bool returned; // to what was saved, once or more
    struct base_prng prng;
    struct base_clock_port clock;
    struct dev_ports ports;
    void *memory;
    size_t memory_bytes;
    struct dev_runtime *runtime;
    struct model_pending pending[MODEL_EXCHANGES];
    uint32_t run; // 0: none
    int run_task;
    int run_version;
    uint32_t
        lawful[MODEL_TASKS]; // bit n + 1: version n was right at the restore or since; bit 0: none
    uint64_t root_seen;
    uint64_t stamp_seen; // version of the timestamp it held at the last check
    uint32_t calls_left; // until it is killed; 0: it is not
    bool killed;
    uint32_t cut_after; // exchanges; 0: none is cut
    enum model_cut cut;
};

// Content, for so many devices; the rest is the caller's.
void model_ground_init(struct model_ground *ground, uint32_t devices);
void model_ground_done(struct model_ground *ground); // content
uint64_t model_device_id(uint64_t seed, uint32_t number);
// Indices of a version by its id; false: none of the world.
bool model_content_find(const struct model_ground *ground, uint64_t version_id, int *out_task,
                        int *out_version);

void model_device_init(struct model_device *device, struct model_ground *ground, uint32_t number,
                       bool rooted);
void model_device_done(struct model_device *device);
// A runtime over what storage holds, with the attributes it has now.
void model_device_boot(struct model_device *device);
// Checks in and does what follows, until nothing is under way. The clock may go on: `advance`.
void model_device_visit(struct model_device *device, void (*advance)(void *ctx, uint64_t us),
                        void *ctx);
// Only what is durable stays.
void model_device_kill(struct model_device *device);
void model_device_save(struct model_device *device);
void model_device_return(struct model_device *device); // to what was saved; nothing was: nothing
// What the runtime runs of a task, and what it tells of it. False: the two differ.
bool model_device_facts(const struct model_device *device, int task, struct model_facts *out);
// Adds what it runs, and what it kept besides, to what is right while it follows nothing.
void model_device_note(struct model_device *device);
// Changes when anything of its tasks does.
uint64_t model_device_mark(const struct model_device *device);

#endif
