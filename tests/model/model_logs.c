// What the gateway wrote down: the audit log's chain by its rule, and each rollout's log played
// again. Control thread, between two requests.
#include "model_gateway.h"

#include "policy/replay.h"
#include "svc/access/audit.h"
#include "svc/core_private.h"
#include "svc/rollout/catalog_private.h"

#include <stdio.h>
#include <string.h>

#define PAGE 64u

struct chain {
    uint64_t seq;
    struct wire_sha256 hash;
    bool holds;
};

static bool follow(void *ctx, const struct gw_audit_view *view)
{
    struct chain *chain = ctx;
    struct wire_sha256 text;
    struct wire_sha256 hash;
    gw_sha256(view->text.data, view->text.size, &text);
    gw_audit_chain(chain->seq + 1, view->tenant, &chain->hash, &text, &hash);
    chain->holds = view->seq == chain->seq + 1 && wire_sha256_equal(&text, &view->text_hash) &&
                   wire_sha256_equal(&hash, &view->hash);
    chain->seq = view->seq;
    chain->hash = view->hash;
    return chain->holds;
}

bool model_gateway_audit_holds(struct model_gateway *gateway, char *why, size_t capacity)
{
    struct chain chain = {.holds = true};
    uint64_t head_seq = 0;
    struct wire_sha256 head;
    enum base_status status = gw_audit_list(gateway->core, 0, follow, &chain, NULL);
    gw_audit_head(gateway->core, &head_seq, &head);
    bool holds = status == BASE_OK && chain.holds && chain.seq == head_seq &&
                 wire_sha256_equal(&chain.hash, &head) && gw_audit_failures(gateway->core) == 0;
    if (!holds) {
        (void)snprintf(why, capacity, "the audit log breaks at entry %llu of %llu (%s)",
                       (unsigned long long)chain.seq, (unsigned long long)head_seq,
                       base_status_text(status));
    }
    return holds;
}

// One page of the log; false: it differs.
static bool replay_page(struct pol_replay *replay, const struct gw_release *release,
                        const struct gw_rollout_log_view *lines, uint32_t count, uint64_t *seq)
{
    for (uint32_t i = 0; i < count; i++) {
        bool differs = false;
        (void)pol_replay_step(replay, release->stages, release->stage_count, &lines[i].record,
                              &differs);
        if (differs || lines[i].seq != *seq + 1) {
            return false;
        }
        *seq = lines[i].seq;
    }
    return true;
}

bool model_gateway_replays(struct model_gateway *gateway, uint64_t id, char *why, size_t capacity)
{
    static struct gw_rollout_log_view lines[PAGE];
    struct pol_replay replay;
    uint64_t seq = 0;
    struct gw_page page = {.limit = PAGE, .more = true};
    const struct gw_rollout *rollout = gw_catalog_find_rollout(gateway->core, id);
    if (rollout == NULL) {
        (void)snprintf(why, capacity, "rollout %016llx is not there", (unsigned long long)id);
        return false;
    }
    pol_replay_init(&replay, rollout->created_us);
    while (page.more) {
        if (gw_rollout_log(gateway->core, id, seq, lines, &page) != BASE_OK ||
            !replay_page(&replay, rollout->release, lines, page.count, &seq)) {
            (void)snprintf(why, capacity, "the log of rollout %016llx differs behind line %llu",
                           (unsigned long long)id, (unsigned long long)seq);
            return false;
        }
        page.more = page.more && page.count > 0;
    }
    if (seq != rollout->log_seq) {
        (void)snprintf(why, capacity, "the log of rollout %016llx has %llu lines of %llu",
                       (unsigned long long)id, (unsigned long long)seq,
                       (unsigned long long)rollout->log_seq);
    }
    return seq == rollout->log_seq;
}
