// The budget of a run: sockets, open files, source addresses and memory, against what the machine
// has. Called once by fleet_run.c on the coordinator's thread before anything is started, so that a
// run that cannot fit is refused with what to change instead of failing in its middle. The machine
// is a parameter; sim_machine_read alone asks the system.
#include "run/preflight.h"

#include "run/fleet_behaviour.h"
#include "run/fleet_memory.h"
#include "run/fleet_metrics.h"
#include "virtual/core_folder.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define FILES_RESERVED       64 // libraries, logs, reports, the coordinator
#define STATE_BYTES_EXPECTED 48 // bases and free cells included
// Of a device in virtual time: its record in the gateway's store, the tables that find it, and what
// the core knows of it without looking there.
#define GATEWAY_BYTES_EXPECTED 300
#define CARRIER_BYTES          (256 * 1024) // session, records and buffers of a carrier under load
#define DEDICATED_BYTES        (20 * 1024)
#define DEDICATED_TLS_BYTES    (30 * 1024)
#define KERNEL_SOCKET_BYTES    (12 * 1024)
// Of a device that speaks real bytes: a session, TLS and a context of it at one end, a session and
// TLS at the other, and two pairs of sockets.
#define BYTE_DEVICE_BYTES (256 * 1024)
#define BYTE_DEVICE_FILES 4
#define BYTE_SHARD_FILES  4                     // of a loop
#define BYTE_GATE_BYTES   (8ull * 1024 * 1024)  // the transport of the gateway, most of it sessions
#define FIXED_BYTES       (11ull * 1024 * 1024) // the program and its libraries
#define THREAD_BYTES      (2ull * 1024 * 1024)  // tables of the content store, most of it
#define SHARD_BYTES       (1180ull * 1024)      // of one in virtual time: timers, most of it
// Of users: their shard's tables and codecs; a device's store, and what a session leaves in it and
// with the gateway. Of a pipeline's memory six tenths are touched: few tables of it ever fill.
#define USERS_SHARD_BYTES  (1000ull * 1024)
#define USER_BYTES         (3ull * 1024)
#define USER_SESSION_BYTES (4608ull)
#define MIB                (1024.0 * 1024.0)

void sim_machine_read(struct sim_machine *out)
{
    struct rlimit files = {0, 0};
    (void)getrlimit(RLIMIT_NOFILE, &files);
    out->open_files_max = files.rlim_cur;
    out->memory_bytes = sim_proc_bytes("/proc/meminfo", "MemAvailable:");
    if (out->memory_bytes == 0) {
        long pages = sysconf(_SC_PHYS_PAGES);
        long page = sysconf(_SC_PAGESIZE);
        out->memory_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    }
}

static bool is_virtual(const struct sim_options *options)
{
    return options->virtual_dir[0] != '\0';
}

// Of the content that a shard, or a device that shares nothing, comes to have.
static uint64_t content_each(const struct sim_options *options)
{
    uint64_t said = (uint64_t)options->content_mib * 1024 * 1024;
    uint64_t there = is_virtual(options) ? sim_core_folder_content(options->virtual_dir) : said;
    return there < said ? there : said;
}

// What there is before the first device.
static uint64_t fixed_bytes(const struct sim_options *options)
{
    return FIXED_BYTES + (is_virtual(options) ? sim_options_shards(options) * SHARD_BYTES
                                              : options->threads * THREAD_BYTES);
}

// Sessions that each user comes to, in the mean.
static uint64_t user_sessions(const struct sim_options *options)
{
    uint32_t every_s = options->session_every_s > 0 ? options->session_every_s : 1;
    uint64_t sessions = options->duration_s > 0 ? options->duration_s / every_s : 1;
    sessions = sessions > 0 ? sessions : 1;
    return options->sessions > 0 && (options->duration_s == 0 || options->sessions < sessions)
               ? options->sessions
               : sessions;
}

static uint64_t users_bytes(const struct sim_options *options)
{
    bool nobody = options->behaviour[0] == '\0' || strcmp(options->behaviour, "none") == 0;
    uint64_t users = (uint64_t)options->devices * options->panel_ppm / 1000000;
    uint64_t shards = sim_options_shards(options);
    uint64_t places = options->active_max / shards * shards;
    places = places > shards ? places : shards;
    places = places < users ? places : users;
    return nobody ? 0
                  : places * (sim_active_bytes() / 10 * 6) + shards * USERS_SHARD_BYTES +
                        users * (USER_BYTES + user_sessions(options) * USER_SESSION_BYTES);
}

static void compute(const struct sim_options *options, struct sim_budget *out)
{
    memset(out, 0, sizeof(*out));
    bool sockets = !options->local && !is_virtual(options);
    if (sockets) {
        out->dedicated =
            options->dedicated < options->devices ? options->dedicated : options->devices;
        uint32_t others = options->devices - out->dedicated;
        out->carriers = (others + options->per_carrier - 1) / options->per_carrier;
    }
    out->sockets = (uint64_t)out->carriers + out->dedicated + (sockets ? 1 : 0);
    out->open_files = out->sockets + FILES_RESERVED +
                      (options->metrics_address[0] != '\0' ? SIM_METRICS_CLIENTS_MAX : 0);
    if (options->byte_devices > 0) {
        out->open_files += options->byte_devices * BYTE_DEVICE_FILES +
                           (sim_options_shards(options) + 1) * BYTE_SHARD_FILES;
    }
    out->source_addresses = out->sockets;
    // Memory of places is spent when a task takes them; the page that begins them is always, and so
    // are large pages. Of runtimes that are folded it is next to nothing.
    uint64_t slots = sim_options_slots(options);
    uint64_t places = sim_task_places_bytes(options);
    bool whole = options->hints || sim_slots_are_large(options) || places <= SIM_PAGE_BYTES;
    uint64_t unused = whole ? 0 : places - SIM_PAGE_BYTES;
    out->awake_bytes =
        slots * (sim_awake_used_bytes(options) - unused) + sim_rooms_used_bytes(options);
    out->tasks_bytes =
        slots * (options->hints ? (options->tasks - 1) * (uint64_t)SIM_FOLDED_TASK_BYTES : unused);
    out->record_bytes =
        (uint64_t)options->devices *
        (sizeof(struct sim_device) + sizeof(struct sim_ledger_entry) + STATE_BYTES_EXPECTED +
         (options->enrols || options->credentials[0] != '\0' ? SIM_CREDENTIAL_RECORD_BYTES : 0));
    uint64_t dedicated_bytes = options->tls ? DEDICATED_TLS_BYTES : DEDICATED_BYTES;
    out->connection_bytes =
        (uint64_t)out->carriers * CARRIER_BYTES + out->dedicated * dedicated_bytes +
        (options->byte_devices > 0
             ? options->byte_devices * (uint64_t)BYTE_DEVICE_BYTES + BYTE_GATE_BYTES
             : 0);
    uint64_t alone = options->real_every > 0 ? options->devices / options->real_every : 0;
    out->content_bytes = (sim_options_shards(options) + alone) * content_each(options);
    out->gateway_bytes =
        is_virtual(options) ? (uint64_t)options->devices * GATEWAY_BYTES_EXPECTED : 0;
    out->kernel_bytes = out->sockets * 2 * KERNEL_SOCKET_BYTES;
    out->users_bytes = users_bytes(options);
    out->fixed_bytes = fixed_bytes(options);
    out->memory_bytes = out->awake_bytes + out->record_bytes + out->connection_bytes +
                        out->kernel_bytes + out->content_bytes + out->gateway_bytes +
                        out->users_bytes + out->fixed_bytes;
    out->ramp_s = options->arrival_rate > 0 ? options->devices / options->arrival_rate : 0;
    if (options->arrivals != NULL) {
        out->ramp_s = sim_arrivals_span(options->arrivals);
    }
}

enum base_status sim_preflight(const struct sim_options *options, const struct sim_machine *machine,
                               struct sim_budget *out, struct base_error *error)
{
    compute(options, out);
    if (out->open_files > machine->open_files_max) {
        return base_error_set(
            error, BASE_ERR_LIMIT,
            "%llu open files needed, the limit is %llu: fewer --dedicated connections or more "
            "devices --per-carrier, or raise the limit (ulimit -n)",
            (unsigned long long)out->open_files, (unsigned long long)machine->open_files_max);
    }
    uint64_t most = out->memory_bytes + out->tasks_bytes;
    if (most > machine->memory_bytes / 10 * 9) {
        return base_error_set(error, BASE_ERR_LIMIT,
                              "%.0f MiB needed, %.0f MiB available: fewer --devices, fewer "
                              "--dedicated connections, a smaller --awake, fewer --tasks, fewer "
                              "users (--panel, --active, --sessions), or fewer --threads or "
                              "devices that share nothing (--real-every)",
                              (double)most / MIB, (double)machine->memory_bytes / MIB);
    }
    return BASE_OK;
}

void sim_budget_print(const struct sim_budget *budget, const struct sim_options *options,
                      const struct sim_machine *machine, FILE *file)
{
    (void)fprintf(file,
                  "preflight: %u devices, %u on %u carriers, %u with a connection of their own\n",
                  options->devices, options->devices - budget->dedicated, budget->carriers,
                  budget->dedicated);
    (void)fprintf(file, "  sockets     %llu from %llu source addresses, %llu of %llu open files\n",
                  (unsigned long long)budget->sockets, (unsigned long long)budget->source_addresses,
                  (unsigned long long)budget->open_files,
                  (unsigned long long)machine->open_files_max);
    (void)fprintf(file,
                  "  memory      %.0f MiB of %.0f (program %.0f, devices %.0f, awake %.0f, "
                  "connections %.0f, kernel %.0f, content %.0f, gateway %.0f, users %.0f)\n",
                  (double)budget->memory_bytes / MIB, (double)machine->memory_bytes / MIB,
                  (double)budget->fixed_bytes / MIB, (double)budget->record_bytes / MIB,
                  (double)budget->awake_bytes / MIB, (double)budget->connection_bytes / MIB,
                  (double)budget->kernel_bytes / MIB, (double)budget->content_bytes / MIB,
                  (double)budget->gateway_bytes / MIB, (double)budget->users_bytes / MIB);
    if (!options->local) {
        (void)fprintf(
            file,
            "  tasks       a device holds %u at most (--tasks): up to %.0f MiB more when all of "
            "these places are taken\n",
            options->tasks, (double)budget->tasks_bytes / MIB);
    }
    if (options->arrivals != NULL) {
        (void)fprintf(file, "  ramp        %.60s, the last one online after %.0f s\n",
                      options->arrivals_shape, budget->ramp_s);
        return;
    }
    (void)fprintf(file, "  ramp        %.0f devices/s, the last one online after %.0f s\n",
                  options->arrival_rate, budget->ramp_s);
}
