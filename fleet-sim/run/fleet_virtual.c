// A run in virtual time, window by window. fleet_run.c calls it, a second at a time, in place of
// threads and sockets. A window begins with the first thing that is due and is as long as the
// fastest message is on its way: within it no shard can hear of another, nor of the core. Nobody
// waits, so a quiet hour takes as long as what happens in it.
//
// The order within a shard is fixed: at each moment the answers that are there, then the shard's
// turn, until nothing is left. Messages have one order of all (virtual/flight_queue.h). What shards
// share is written in their order. So a run depends on its options and the folder alone.
#include "run/fleet_virtual.h"

#include "base/alloc.h"
#include "base/check.h"
#include "bytes/bytes_gate.h"
#include "base/hash.h"
#include "base/os/output_file.h"
#include "ports/shared_verify.h"
#include "ports/sim_delay_network.h"
#include "run/fleet_memory.h"
#include "run/device_story.h"
#include "virtual/core_folder.h"
#include "virtual/core_gateway.h"
#include "virtual/core_tunnel.h"
#include "virtual/windows.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_BYTES_MAX (1u << 20) // of the gateway, to an operator

#define LINE 64 // of a cache: what two threads write lies apart

// What a run has of a shard.
struct part {
    _Alignas(LINE) struct sim_virtual_clock clock;
    struct base_clock_port port;
    struct sim_shard *shard;
    struct sim_core_tunnel *tunnel; // of its streams; NULL: nobody behaves
    bool turned;                    // since it published: else it has nothing to tell
    uint64_t next_us;               // when it has something to do by itself
    struct sim_core_link link;
    struct sim_bytes_lines bytes; // of its devices that speak them
};

struct sim_virtual {
    const struct sim_options *options;
    struct sim_virtual_clock clock;
    struct base_clock_port port;
    struct base_log log;
    struct part *parts;
    struct sim_core_link *links[SIM_SHARDS_MAX];
    struct sim_bytes_lines *lines[SIM_SHARDS_MAX];
    struct sim_bytes_gate gate; // the core's end of them
    uint32_t part_count;
    struct sim_delay_port delay;
    struct sim_virtual_clock core_clock;
    struct sim_core_gateway *gateway;
    uint64_t core_next_us;
    struct sim_flight_memory flights;
    struct sim_shared_verify *verify; // what was verified, of all shards
    struct sim_vms *vms;              // of each thread
    struct sim_windows *windows;
    uint32_t window;
    uint64_t window_end_us;
    uint64_t kill_us; // of the core, in the second that runs; UINT64_MAX: never
    uint64_t kills;
    struct sim_memory_watch memory;
    struct sim_recorder core_recorder;
    FILE *trace;           // NULL: none
    struct sim_tale *tale; // NULL: no device's
    uint64_t start_us;
    uint32_t acted; // acts that were carried out: a bit each
};

// ---- A window

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t streams_due_us(const struct part *part)
{
    const struct sim_core_tunnel *tunnel = part->shard->tunnel;
    return tunnel != NULL ? sim_core_tunnel_due_us(tunnel) : UINT64_MAX;
}

// On any thread.
static void run_shard(void *ctx, uint32_t worker, uint32_t task)
{
    struct sim_virtual *virtual = ctx;
    struct part *part = &virtual->parts[task];
    part->shard->runner.vms = &virtual->vms[worker];
    sim_core_link_collect(&part->link);
    sim_bytes_lines_collect(&part->bytes);
    uint64_t next_us = part->next_us;
    for (;;) {
        next_us = least(next_us, least(sim_core_link_due_us(&part->link), streams_due_us(part)));
        next_us = least(next_us, sim_bytes_lines_due_us(&part->bytes));
        if (next_us >= virtual->window_end_us) {
            break;
        }
        if (next_us > part->clock.now_us) {
            sim_virtual_clock_move(&part->clock, next_us);
        }
        sim_core_link_deliver(&part->link);
        if (part->shard->tunnel != NULL) {
            sim_core_tunnel_deliver(part->shard->tunnel);
        }
        sim_bytes_lines_deliver(&part->bytes);
        next_us = sim_shard_turn(part->shard);
        sim_bytes_lines_send(&part->bytes);
        part->turned = true;
    }
    part->next_us = next_us;
}

static void run_core(void *ctx)
{
    struct sim_virtual *virtual = ctx;
    virtual->core_next_us = sim_core_gateway_run(virtual->gateway, virtual->window_end_us);
}

// When something is due next, of messages that are posted too.
static uint64_t earliest_us(const struct sim_virtual *virtual)
{
    uint64_t next_us = virtual->core_next_us;
    uint32_t parity = virtual->window & 1;
    for (uint32_t i = 0; i < virtual->part_count; i++) {
        const struct part *part = &virtual->parts[i];
        next_us = least(next_us, part->next_us);
        next_us = least(next_us, part->link.up[parity].due_us);
        next_us = least(next_us, part->link.down[parity].due_us);
        next_us = least(next_us, part->bytes.up[parity].due_us);
        next_us = least(next_us, part->bytes.down[parity].due_us);
    }
    return next_us;
}

// The first moment of this second at which a rule kills the core; UINT64_MAX: none does.
static uint64_t kill_due_us(const struct sim_virtual *virtual, uint64_t until_us)
{
    const struct sim_fault_plan *plan = &virtual->options->faults;
    uint64_t from_us = virtual->clock.now_us;
    uint64_t found_us = UINT64_MAX;
    base_assert(from_us >= virtual->start_us);
    for (uint32_t i = 0; i < plan->rule_count; i++) {
        const struct sim_fault_rule *rule = &plan->rules[i];
        uint64_t window_us = rule->amount * UINT64_C(1000000);
        if (rule->kind != SIM_FAULT_RESTART) {
            continue;
        }
        uint64_t window = (from_us - virtual->start_us) / window_us;
        uint64_t draw = sim_fault_draw(virtual->options->seed, rule, 0, window);
        uint64_t ran_us = window * window_us + base_mix64(draw) % window_us;
        bool on = sim_fault_begun(rule, ran_us) &&
                  (plan->until_s == 0 || ran_us < plan->until_s * UINT64_C(1000000));
        uint64_t at_us = virtual->start_us + ran_us;
        if (on && sim_fault_hits(rule, draw) && at_us >= from_us && at_us < until_us) {
            found_us = least(found_us, at_us);
        }
    }
    return found_us;
}

// No line runs: what the core has not written is gone, and connections with it.
static void kill_core(struct sim_virtual *virtual)
{
    struct base_error error = {.status = BASE_OK};
    if (sim_core_gateway_restart(virtual->gateway, virtual->kill_us, &error) != BASE_OK) {
        base_log_error(&virtual->log, "fleet", "the gateway's core is not restarted: %s",
                       error.text);
    }
    for (uint32_t i = 0; i < virtual->part_count; i++) {
        struct part *part = &virtual->parts[i];
        if (part->shard->tunnel != NULL) {
            sim_core_tunnel_cut(part->shard->tunnel, virtual->kill_us);
            part->next_us = least(part->next_us, streams_due_us(part));
        }
    }
    virtual->core_next_us = sim_core_gateway_due_us(virtual->gateway);
    virtual->kill_us = UINT64_MAX;
    virtual->kills++;
}

// One window, or none: nothing is due before `until_us`.
static bool run_window(struct sim_virtual *virtual, uint64_t until_us)
{
    uint32_t tasks[SIM_SHARDS_MAX];
    uint32_t count = 0;
    uint64_t from_us = earliest_us(virtual);
    if (virtual->kill_us <= from_us) {
        kill_core(virtual);
        from_us = earliest_us(virtual);
    }
    if (from_us >= until_us) {
        return false;
    }
    uint32_t posted = virtual->window & 1;
    virtual->window++;
    virtual->window_end_us = least(from_us + virtual->delay.least_us, until_us);
    virtual->window_end_us = least(virtual->window_end_us, virtual->kill_us);
    for (uint32_t i = 0; i < virtual->part_count; i++) {
        const struct part *part = &virtual->parts[i];
        // What was posted is taken out, whenever it arrives: the core writes there once more in the
        // window after this.
        if (part->next_us < virtual->window_end_us || part->link.down[posted].sent.count > 0 ||
            part->bytes.down[posted].sent.count > 0) {
            tasks[count++] = i;
        }
    }
    sim_windows_run(virtual->windows, tasks, count);
    return true;
}

void sim_virtual_run(struct sim_virtual *virtual, uint64_t until_us)
{
    base_assert(virtual->gateway != NULL);
    sim_memory_look(&virtual->memory, sim_core_gateway_folder_bytes(virtual->gateway));
    virtual->kill_us = kill_due_us(virtual, until_us);
    while (run_window(virtual, until_us)) {
    }
    sim_virtual_clock_move(&virtual->clock, until_us);
    sim_virtual_clock_move(&virtual->core_clock, until_us);
    for (uint32_t i = 0; i < virtual->part_count; i++) {
        struct part *part = &virtual->parts[i];
        sim_virtual_clock_move(&part->clock, until_us);
        if (part->turned) {
            sim_shard_publish(part->shard);
            part->turned = false;
        }
    }
    sim_shared_verify_age(virtual->verify);
}

// ---- Life

static void in_order(void *ctx, uint32_t shard)
{
    struct sim_virtual *virtual = ctx;
    sim_windows_in_order(virtual->windows, shard);
}

enum base_status sim_virtual_new(const struct sim_options *options,
                                 struct sim_virtual **out_virtual, struct base_error *error)
{
    uint64_t wall_us = 0;
    BASE_TRY(sim_core_folder_time(options->virtual_dir, &wall_us, error));
    struct sim_virtual *virtual = calloc(1, sizeof(*virtual));
    uint32_t count = sim_options_shards(options);
    struct part *parts = aligned_alloc(LINE, sizeof(*parts) * count);
    if (virtual == NULL || parts == NULL || sim_shared_verify_new(&virtual->verify) != BASE_OK) {
        free(virtual);
        free(parts);
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    memset(parts, 0, sizeof(*parts) * count);
    virtual->options = options;
    virtual->parts = parts;
    sim_flight_memory_init(&virtual->flights);
    base_log_stderr(&virtual->log, BASE_LOG_WARN);
    sim_virtual_clock_init(&virtual->clock, wall_us);
    virtual->start_us = virtual->clock.now_us;
    sim_virtual_clock_init(&virtual->core_clock, wall_us);
    virtual->port = sim_virtual_clock_port(&virtual->clock);
    virtual->kill_us = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        sim_virtual_clock_init(&parts[i].clock, wall_us);
        parts[i].port = sim_virtual_clock_port(&parts[i].clock);
    }
    *out_virtual = virtual;
    return BASE_OK;
}

void sim_virtual_free(struct sim_virtual *virtual)
{
    if (virtual == NULL) {
        return;
    }
    sim_windows_free(virtual->windows);
    sim_core_gateway_free(virtual->gateway);
    sim_bytes_gate_done(&virtual->gate);
    for (uint32_t i = 0; i < virtual->part_count; i++) {
        sim_bytes_lines_done(&virtual->parts[i].bytes);
        sim_core_link_done(&virtual->parts[i].link);
        sim_core_tunnel_free(virtual->parts[i].tunnel);
    }
    sim_flight_memory_done(&virtual->flights);
    for (uint32_t i = 0; virtual->vms != NULL && i < virtual->options->threads; i++) {
        sim_vms_done(&virtual->vms[i]);
    }
    sim_shared_verify_free(virtual->verify);
    sim_recorder_done(&virtual->core_recorder);
    (void)sim_tale_free(virtual->tale, NULL); // of a run that came to no end
    if (virtual->trace != NULL) {
        (void)fclose(virtual->trace);
    }
    free(virtual->vms);
    free(virtual->parts);
    free(virtual);
}

const struct base_clock_port *sim_virtual_clock(const struct sim_virtual *virtual)
{
    return &virtual->port;
}

void sim_virtual_share(const struct sim_virtual *virtual, struct sim_share *share)
{
    share->clock = &virtual->parts[share->number].port;
    share->verify = virtual->verify;
}

// A few of them speak real bytes; the others' transport is the link.
static enum base_status bytes_attach(struct sim_virtual *virtual, struct part *part)
{
    const struct sim_options *options = virtual->options;
    const struct sim_bytes_lines_options lines = {
        .shard = part->link.options.shard,
        .seed = options->seed,
        .devices = options->devices,
        .wanted = options->byte_devices,
        .first = part->shard->first,
        .count = part->shard->count,
        .clock = part->port,
        .delay = virtual->delay,
        .events = part->link.options.events,
        .window = &virtual->window,
        .link = &part->link,
        .log = &virtual->log,
    };
    virtual->lines[lines.shard] = &part->bytes;
    part->shard->transport = sim_core_link_transport(&part->link);
    BASE_TRY(sim_bytes_lines_init(&part->bytes, &lines));
    if (sim_bytes_lines_any(&part->bytes)) {
        part->shard->bytes = &part->bytes;
        part->shard->transport = sim_bytes_lines_transport(&part->bytes, &part->shard->transport);
    }
    return BASE_OK;
}

static enum base_status part_attach(struct sim_virtual *virtual, uint32_t number,
                                    struct sim_shard *shard)
{
    struct part *part = &virtual->parts[number];
    const struct sim_core_link_options link = {
        .shard = number,
        .first = shard->first,
        .clock = part->port,
        .delay = virtual->delay,
        .events = sim_device_events(shard),
        .window = &virtual->window,
        .flights = &virtual->flights,
        .log = &virtual->log,
        .owner_bytes = SIM_AWAKE_TOLD_BYTES,
    };
    sim_core_link_init(&part->link, &link);
    virtual->links[number] = &part->link;
    virtual->part_count++;
    part->shard = shard;
    part->next_us = part->clock.now_us;
    enum base_status status = bytes_attach(virtual, part);
    shard->order = (struct sim_order){.ctx = virtual, .wait = in_order};
    sim_shard_begin(shard);
    return status;
}

// The core's end of the connections; no door where no device speaks bytes.
static struct sim_core_door gate_begin(struct sim_virtual *virtual)
{
    const struct sim_bytes_gate_options options = {
        .clock = sim_virtual_clock_port(&virtual->core_clock),
        .delay = virtual->delay,
        .lines = virtual->lines,
        .line_count = virtual->part_count,
        .window = &virtual->window,
        .recorder = &virtual->core_recorder,
        .log = &virtual->log,
    };
    sim_bytes_gate_init(&virtual->gate, &options);
    return virtual->options->byte_devices > 0 ? sim_bytes_gate_door(&virtual->gate)
                                              : (struct sim_core_door){.open = NULL};
}

// Where devices behave, their streams have a gateway's side.
static enum base_status tunnels_begin(struct sim_virtual *virtual, struct base_error *error)
{
    for (uint32_t i = 0; i < virtual->part_count; i++) {
        struct part *part = &virtual->parts[i];
        const struct sim_core_tunnel_options options = {
            .clock = part->port,
            .delay = virtual->delay,
            .events = sim_device_events(part->shard),
            .log = &virtual->log,
        };
        if (part->shard->behaving != NULL) {
            BASE_TRY(sim_core_tunnel_new(&options, &part->tunnel, error));
            part->shard->tunnel = part->tunnel;
            part->link.options.tunnel = part->tunnel;
        }
    }
    return BASE_OK;
}

static enum base_status threads_start(struct sim_virtual *virtual)
{
    uint32_t threads = virtual->options->threads;
    virtual->vms = calloc(threads, sizeof(*virtual->vms));
    if (virtual->vms == NULL) {
        return BASE_ERR_NOMEM;
    }
    const struct sim_windows_options options = {
        .threads = threads, .ctx = virtual, .run = run_shard, .first = run_core};
    return sim_windows_new(&options, &virtual->windows);
}

static struct sim_recorder *recorder_of(struct sim_virtual *virtual, uint32_t line)
{
    return line < virtual->part_count ? &virtual->parts[line].shard->recorder
                                      : &virtual->core_recorder;
}

// Of each line, and the trace that is asked for.
static enum base_status recorders_begin(struct sim_virtual *virtual, struct base_error *error)
{
    const struct sim_options *options = virtual->options;
    char path[SIM_TEXT_MAX + 32];
    for (uint32_t i = 0; i <= virtual->part_count; i++) {
        sim_recorder_begin(recorder_of(virtual, i), virtual->clock.now_us);
    }
    if (!options->traced) {
        return BASE_OK;
    }
    if (options->trace_line > virtual->part_count) {
        return base_error_set(error, BASE_ERR_INVALID, "--trace %u: there are %u shards",
                              options->trace_line, virtual->part_count);
    }
    (void)snprintf(path, sizeof(path), "%s/" SIM_TRACE_FILE, options->out);
    virtual->trace = fopen(path, "we");
    if (virtual->trace == NULL) {
        return base_error_set(error, BASE_ERR_IO, "%s: %s", path, strerror(errno));
    }
    struct sim_recorder *traced = recorder_of(virtual, options->trace_line);
    traced->trace = virtual->trace;
    traced->second = options->trace_second;
    return BASE_OK;
}

static enum base_status story_begin(struct sim_virtual *virtual, struct base_error *error)
{
    BASE_TRY(sim_tale_new(virtual->options, virtual->clock.now_us, &virtual->tale, error));
    for (uint32_t i = 0; i < virtual->part_count; i++) {
        virtual->parts[i].shard->tale = virtual->tale;
        virtual->parts[i].shard->faults.story = virtual->tale != NULL ? &virtual->tale->story
                                                                      : NULL;
    }
    return BASE_OK;
}

// Devices that may come without a credential, those that come as another one too.
static uint32_t strangers(const struct sim_options *options)
{
    uint32_t others = options->reinstall_ppm > 0 ? options->devices : 0;
    return options->strangers ? options->devices + others : 0;
}

enum base_status sim_virtual_attach(struct sim_virtual *virtual, struct sim_shard *const *shards,
                                    struct base_error *error)
{
    virtual->delay = virtual->options->network_links ? sim_delay_network(&shards[0]->population)
                                                     : sim_delay_constant();
    for (uint32_t i = 0; i < sim_options_shards(virtual->options); i++) {
        if (part_attach(virtual, i, shards[i]) != BASE_OK) {
            return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
        }
    }
    const struct sim_core_gateway_options options = {
        .dir = virtual->options->virtual_dir,
        .clock = &virtual->core_clock,
        .seed = virtual->options->seed,
        .strangers = strangers(virtual->options),
        .links = virtual->links,
        .link_count = virtual->part_count,
        .window = &virtual->window,
        .recorder = &virtual->core_recorder,
        .verify = virtual->options->own_signatures ? virtual->verify : NULL,
        .door = gate_begin(virtual),
        .log = &virtual->log,
    };
    BASE_TRY(recorders_begin(virtual, error));
    BASE_TRY(tunnels_begin(virtual, error));
    BASE_TRY(story_begin(virtual, error));
    BASE_TRY(sim_core_gateway_new(&options, &virtual->gateway, error));
    for (uint32_t i = 0; i < virtual->part_count; i++) {
        virtual->parts[i].link.options.gateway = virtual->gateway;
    }
    if (threads_start(virtual) != BASE_OK) {
        return base_error_set(error, BASE_ERR_NOMEM, "cannot start %u threads",
                              virtual->options->threads);
    }
    return BASE_OK;
}

int sim_virtual_answer(void *ctx, const char *path, struct base_buffer *out)
{
    struct sim_virtual *virtual = ctx;
    return sim_core_gateway_ask(virtual->gateway, path, out);
}

// ---- What an operator does

static enum base_status act(struct sim_virtual *virtual, const struct sim_act *act,
                            uint64_t rollout, struct base_error *error)
{
    struct base_buffer said;
    char path[64];
    base_buffer_init(&said, base_alloc_heap(), ANSWER_BYTES_MAX);
    if (rollout == 0) {
        return base_error_set(error, BASE_ERR_CONFLICT, "%s at second %u: there is no rollout",
                              act->word, act->at_s);
    }
    (void)snprintf(path, sizeof(path), "/api/v1/rollouts/%016llx/%s", (unsigned long long)rollout,
                   act->word);
    int status = sim_core_gateway_tell(virtual->gateway, path,
                                       "{\"reason\": \"an act of a run in virtual time\"}", &said);
    enum base_status done = BASE_OK;
    if (status / 100 != 2) {
        json_t *answer = json_loadb((const char *)said.data, said.size, 0, NULL);
        const char *why = json_string_value(json_object_get(answer, "detail"));
        done = base_error_set(error, BASE_ERR_CONFLICT,
                              "%s at second %u: the gateway refused it: %.120s (%d)", act->word,
                              act->at_s, why != NULL ? why : "it did not say why", status);
        json_decref(answer);
    }
    base_buffer_done(&said);
    return done;
}

enum base_status sim_virtual_act(struct sim_virtual *virtual, uint64_t rollout,
                                 struct base_error *error)
{
    const struct sim_acts *acts = &virtual->options->acts;
    uint64_t ran_us = virtual->clock.now_us - virtual->start_us;
    _Static_assert(SIM_ACTS_MAX <= 32, "a bit each");
    for (uint32_t i = 0; i < acts->count; i++) {
        bool due = ran_us >= acts->list[i].at_s * UINT64_C(1000000);
        if (due && (virtual->acted >> i & 1u) == 0) {
            virtual->acted |= UINT32_C(1) << i;
            BASE_TRY(act(virtual, &acts->list[i], rollout, error));
        }
    }
    return BASE_OK;
}

// ---- What the run was

static void note_devices(struct sim_shard *shard)
{
    const struct sim_ledger *ledger = &shard->ledger;
    for (uint32_t i = 0; i < ledger->count; i++) {
        const struct sim_ledger_entry *entry = &ledger->entries[i];
        const struct sim_ledger_masks masks = sim_ledger_masks(ledger, i);
        const struct sim_ledger_times times = sim_ledger_times(ledger, i);
        const uint64_t facts[] = {
            masks.ran,          masks.good,   masks.failed,  times.offered_ms, times.downloaded_ms,
            times.activated_ms, times.ran_ms, entry->active, entry->outcome,   entry->activations,
        };
        sim_shard_note(shard, sim_shard_index(shard, i), SIM_EVENT_BECAME,
                       base_hash64(facts, sizeof(facts)));
    }
}

static enum base_status files_write(struct sim_virtual *virtual, const struct sim_digest *digest,
                                    struct base_error *error)
{
    BASE_TRY(sim_digest_write(digest, virtual->options->out, error));
    if (virtual->trace != NULL && fflush(virtual->trace) != 0) {
        return base_error_set(error, BASE_ERR_IO, SIM_TRACE_FILE ": %s", strerror(errno));
    }
    return BASE_OK;
}

static enum base_status gather_digest(struct sim_virtual *virtual, char out[SIM_DIGEST_HEX + 1],
                                      struct base_error *error)
{
    struct sim_recorder *recorders[SIM_SHARDS_MAX + 1];
    struct sim_digest digest;
    for (uint32_t i = 0; i <= virtual->part_count; i++) {
        recorders[i] = recorder_of(virtual, i);
        if (i < virtual->part_count) {
            note_devices(virtual->parts[i].shard);
        }
    }
    enum base_status status = sim_digest_make(recorders, virtual->part_count + 1, &digest);
    if (status != BASE_OK) {
        return base_error_set(error, status, "no digest of the run: %s", base_status_text(status));
    }
    sim_digest_root(&digest, out);
    status = files_write(virtual, &digest, error);
    if (status == BASE_OK && virtual->trace != NULL &&
        virtual->options->trace_second >= digest.seconds) {
        status =
            base_error_set(error, BASE_ERR_NOT_FOUND,
                           "--trace: the run ended in second %u: " SIM_TRACE_FILE " has nothing",
                           digest.seconds > 0 ? digest.seconds - 1 : 0);
    }
    sim_digest_done(&digest);
    return status;
}

// Awake slots are no part of a device that sleeps; each that was ever used still has its pages.
static void gather_memory(const struct sim_virtual *virtual, struct sim_run_result *result)
{
    uint64_t folder_bytes = sim_core_gateway_folder_bytes(virtual->gateway);
    uint64_t slot_bytes = result->budget.awake_bytes / sim_options_slots(virtual->options);
    uint64_t fixed_bytes = virtual->memory.begin_bytes;
    uint64_t end_bytes = sim_memory_kept() + folder_bytes;
    uint64_t devices = 0;
    for (uint32_t i = 0; i < virtual->part_count; i++) {
        const struct sim_shard *shard = virtual->parts[i].shard;
        fixed_bytes += shard->awake_most * slot_bytes;
        devices += shard->ledger.counters.arrived;
    }
    bool grown = end_bytes > fixed_bytes && devices > 0;
    result->folder_bytes = folder_bytes;
    result->peak_rss_bytes = virtual->memory.peak_bytes;
    result->dormant_bytes = grown ? (double)(end_bytes - fixed_bytes) / (double)devices : 0;
}

static void gather_bytes(const struct sim_virtual *virtual, struct sim_run_result *result)
{
    result->bytes = virtual->gate.tally;
    for (uint32_t i = 0; i < virtual->part_count; i++) {
        sim_bytes_tally_add(&result->bytes, &virtual->parts[i].bytes.tally);
    }
    if (virtual->options->byte_devices > 0) {
        const struct sim_bytes_tally *bytes = &result->bytes;
        sim_ledger_judge_bytes(&result->verdict, bytes->mismatches, bytes->answers,
                               bytes->mismatched);
    }
}

static enum base_status story_end(struct sim_virtual *virtual, struct base_error *error)
{
    char task[WIRE_TASK_NAME_MAX + 1] = "";
    struct sim_tale *tale = virtual->tale;
    for (uint32_t i = 0; tale != NULL && i < virtual->part_count; i++) {
        const struct sim_shard *shard = virtual->parts[i].shard;
        (void)sim_versions_task_name(shard->versions, shard->ledger.task_id, task);
        const struct sim_story_end end = {shard, task, sim_virtual_answer, virtual};
        sim_tale_end(tale, &end);
        virtual->parts[i].shard->tale = NULL;
        virtual->parts[i].shard->faults.story = NULL;
    }
    virtual->tale = NULL;
    return sim_tale_free(tale, error);
}

void sim_virtual_gather(struct sim_virtual *virtual, struct sim_run_result *result, FILE *log)
{
    _Static_assert(sizeof(result->digest) == SIM_DIGEST_HEX + 1, "its text");
    struct base_error error = {.status = BASE_OK};
    sim_memory_look(&virtual->memory, sim_core_gateway_folder_bytes(virtual->gateway));
    gather_memory(virtual, result);
    gather_bytes(virtual, result);
    result->unwritten = sim_core_gateway_unwritten(virtual->gateway);
    result->faults[SIM_FAULT_RESTART] += virtual->kills;
    if (gather_digest(virtual, result->digest, &error) != BASE_OK) {
        (void)fprintf(log, "%s\n", error.text);
    }
    if (story_end(virtual, &error) != BASE_OK) {
        (void)fprintf(log, "%s\n", error.text);
    }
}
