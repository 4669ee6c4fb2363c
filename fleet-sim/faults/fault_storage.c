// The storage port of a device whose storage fails, and the count of calls by which its process may
// die: a decorator of ports/sim_storage.c and of the device's HTTP port. fault_wake.c puts it there
// when a device wakes. What a dead process does has no effect: its calls are refused, and
// fleet_device.c takes it away before anybody looks at what it believes.
#include "faults/faults.h"

#include "base/check.h"

#include <string.h>

// A blob as it was read with a bit wrong.
struct sim_flipped {
    struct sim_flipped *next;
    struct wire_sha256 name;
    size_t size;
    uint8_t bytes[];
};

static const struct dev_storage_port *under(const struct sim_faulty *faulty)
{
    return &faulty->storage;
}

// Does this write fail? `size`: bytes of content that it adds.
static enum base_status write_refused(struct sim_faulty *faulty, size_t size)
{
    uint64_t draw = 0;
    uint32_t number = ++faulty->writes;
    enum base_status status = BASE_OK;
    if (!sim_faults_on(faulty->faults)) {
        return BASE_OK;
    }
    if (faulty->readonly) {
        sim_fault_met_once(faulty, SIM_FAULT_READONLY);
        status = BASE_ERR_IO;
    } else if (sim_fault_of(faulty, SIM_FAULT_ERROR, SIM_FAULT_ERROR, number, &draw) != NULL) {
        sim_fault_met(faulty, SIM_FAULT_ERROR);
        status = BASE_ERR_IO;
    } else if (faulty->full_at != 0 && number >= faulty->full_at) {
        sim_fault_met_once(faulty, SIM_FAULT_FULL);
        status = BASE_ERR_FULL;
    } else if (size > faulty->room) {
        sim_fault_met_once(faulty, SIM_FAULT_DISK);
        status = BASE_ERR_FULL;
    } else if (faulty->room != UINT64_MAX) {
        faulty->room -= size;
    }
    faulty->excused = faulty->excused || status != BASE_OK;
    return status;
}

// ---- Reads

static const struct sim_fault_rule *flips(struct sim_faulty *faulty, uint64_t *out_draw)
{
    return sim_fault_of(faulty, SIM_FAULT_FLIP, SIM_FAULT_FLIP, ++faulty->reads, out_draw);
}

static void flip(struct sim_faulty *faulty, uint8_t *bytes, size_t size, uint64_t draw)
{
    if (size > 0) {
        sim_fault_met(faulty, SIM_FAULT_FLIP);
        bytes[draw % size] ^= (uint8_t)(1u << (draw >> 29 & 7u));
    }
}

static enum base_status state_load(void *ctx, uint8_t *out, size_t capacity, size_t *out_size)
{
    struct sim_faulty *faulty = ctx;
    uint64_t draw = 0;
    if (!sim_fault_call(faulty)) {
        return BASE_ERR_IO;
    }
    BASE_TRY(under(faulty)->state_load(under(faulty)->ctx, out, capacity, out_size));
    if (flips(faulty, &draw) != NULL) {
        flip(faulty, out, *out_size, draw);
        faulty->lost = true; // a device that cannot read what it knew begins anew
        faulty->excused = true;
    }
    sim_fault_call_ends(faulty);
    return BASE_OK;
}

static enum base_status blob_map(void *ctx, const struct wire_sha256 *name,
                                 const uint8_t **out_bytes, size_t *out_size)
{
    struct sim_faulty *faulty = ctx;
    uint64_t draw = 0;
    BASE_TRY(under(faulty)->blob_map(under(faulty)->ctx, name, out_bytes, out_size));
    if (flips(faulty, &draw) == NULL) {
        return BASE_OK;
    }
    const struct base_alloc_port *alloc = faulty->faults->alloc;
    struct sim_flipped *copy = alloc->alloc(alloc->ctx, sizeof(*copy) + *out_size + 1);
    if (copy != NULL) {
        copy->next = faulty->flipped;
        copy->name = *name;
        copy->size = *out_size;
        memcpy(copy->bytes, *out_bytes, *out_size);
        flip(faulty, copy->bytes, *out_size, draw);
        faulty->flipped = copy;
        faulty->excused = true;
        under(faulty)->blob_unmap(under(faulty)->ctx, name, *out_bytes, *out_size);
        *out_bytes = copy->bytes;
    }
    return BASE_OK;
}

static void blob_unmap(void *ctx, const struct wire_sha256 *name, const uint8_t *bytes, size_t size)
{
    struct sim_faulty *faulty = ctx;
    for (const struct sim_flipped *at = faulty->flipped; at != NULL; at = at->next) {
        if (bytes == at->bytes) {
            return; // it goes when the device sleeps: somebody may have mapped it twice
        }
    }
    under(faulty)->blob_unmap(under(faulty)->ctx, name, bytes, size);
}

static enum base_status blob_stat(void *ctx, const struct wire_sha256 *name, uint64_t *out_bytes,
                                  bool *out_sealed)
{
    struct sim_faulty *faulty = ctx;
    return under(faulty)->blob_stat(under(faulty)->ctx, name, out_bytes, out_sealed);
}

static enum base_status blob_each(void *ctx,
                                  void (*visit)(void *visit_ctx, const struct wire_sha256 *name),
                                  void *visit_ctx)
{
    struct sim_faulty *faulty = ctx;
    return under(faulty)->blob_each(under(faulty)->ctx, visit, visit_ctx);
}

// ---- Writes

// A write that goes through, or what it comes to instead.
static enum base_status begin_write(struct sim_faulty *faulty, size_t size)
{
    if (!sim_fault_call(faulty)) {
        return BASE_ERR_IO;
    }
    return write_refused(faulty, size);
}

static enum base_status state_save(void *ctx, const uint8_t *bytes, size_t size)
{
    struct sim_faulty *faulty = ctx;
    BASE_TRY(begin_write(faulty, 0));
    enum base_status status = under(faulty)->state_save(under(faulty)->ctx, bytes, size);
    sim_fault_call_ends(faulty);
    return status;
}

static enum base_status blob_append(void *ctx, const struct wire_sha256 *name, uint64_t offset,
                                    const uint8_t *bytes, size_t size)
{
    struct sim_faulty *faulty = ctx;
    BASE_TRY(begin_write(faulty, size));
    enum base_status status =
        under(faulty)->blob_append(under(faulty)->ctx, name, offset, bytes, size);
    sim_fault_call_ends(faulty);
    return status;
}

static enum base_status blob_seal(void *ctx, const struct wire_sha256 *name)
{
    struct sim_faulty *faulty = ctx;
    BASE_TRY(begin_write(faulty, 0));
    enum base_status status = under(faulty)->blob_seal(under(faulty)->ctx, name);
    sim_fault_call_ends(faulty);
    return status;
}

static enum base_status blob_delete(void *ctx, const struct wire_sha256 *name)
{
    struct sim_faulty *faulty = ctx;
    if (!sim_fault_call(faulty)) {
        return BASE_ERR_IO;
    }
    if (faulty->readonly && sim_faults_on(faulty->faults)) {
        sim_fault_met_once(faulty, SIM_FAULT_READONLY);
        return BASE_ERR_IO;
    }
    enum base_status status = under(faulty)->blob_delete(under(faulty)->ctx, name);
    sim_fault_call_ends(faulty);
    return status;
}

// ---- Requests are calls too

static enum base_status http_start(void *ctx, uint32_t id, const struct dev_request *request)
{
    struct sim_faulty *faulty = ctx;
    if (!sim_fault_call(faulty)) {
        return BASE_ERR_IO;
    }
    enum base_status status = faulty->http.start(faulty->http.ctx, id, request);
    sim_fault_call_ends(faulty);
    return status;
}

static void http_cancel(void *ctx, uint32_t id)
{
    struct sim_faulty *faulty = ctx;
    faulty->http.cancel(faulty->http.ctx, id);
}

void sim_fault_ports_wrap(struct sim_faulty *faulty, struct dev_ports *ports)
{
    bool flips_bits = sim_fault_plan_has(faulty->faults->plan, SIM_FAULT_FLIP);
    base_assert(faulty->mask != 0);
    faulty->storage = ports->storage;
    faulty->http = ports->http;
    ports->storage = (struct dev_storage_port){
        .ctx = faulty,
        .steady = ports->storage.steady && !flips_bits,
        .state_load = state_load,
        .state_save = state_save,
        .blob_stat = blob_stat,
        .blob_append = blob_append,
        .blob_seal = blob_seal,
        .blob_map = blob_map,
        .blob_unmap = blob_unmap,
        .blob_delete = blob_delete,
        .blob_each = blob_each,
    };
    ports->http = (struct dev_http_port){faulty, http_start, http_cancel};
}

void sim_fault_ports_drop(struct sim_faulty *faulty)
{
    const struct base_alloc_port *alloc = faulty->faults->alloc;
    while (faulty->flipped != NULL) {
        struct sim_flipped *next = faulty->flipped->next;
        alloc->release(alloc->ctx, faulty->flipped);
        faulty->flipped = next;
    }
}
