// Caps and rates, see the header. One thread, behind each request of a device.
#include "model_pace.h"

#include "svc/core_private.h"
#include "wire/trust/offer.h"
#include "svc/rollout/catalog_private.h"

#include <string.h>

#define TIMEOUT_US (UINT64_C(600) * 1000000u) // of a rollout that says nothing else
#define CAP        2u                         // of the pace that has one (model_record.c)
#define RATE_PER_S 4u                         // of the one that is steady
#define BURST      (2u * RATE_PER_S)          // a second's worth, and one more for the borders
#define MICRO      1000000u
#define DONE       UINT64_MAX

static uint32_t label_of(const struct model_record *record, uint64_t id)
{
    uint32_t label = 0;
    while (label < MODEL_ROLLOUTS_MAX &&
           !(record->rollouts[label].there && record->rollouts[label].id == id)) {
        label++;
    }
    return label;
}

// Nothing holds back what is complete.
static bool makes_counted_offers(const struct model_world *world, uint64_t id)
{
    const struct gw_rollout *rollout = gw_catalog_find_rollout(world->gateway.core, id);
    return rollout != NULL && rollout->state.state != POL_ROLLOUT_COMPLETED;
}

static void check_cap(struct model_world *world, uint32_t label)
{
    const struct model_flight *flight = &world->flights[label];
    uint32_t under_way = 0;
    for (uint32_t i = 0; i < world->device_count; i++) {
        uint64_t offered_us = flight->offered_us[i];
        under_way +=
            offered_us != 0 && offered_us != DONE && world->mono_us - offered_us < TIMEOUT_US;
    }
    if (under_way > CAP) {
        model_world_fail(world, "cap", "rollout %u is under way on %u devices, and %u are its cap",
                         label, under_way, CAP);
    }
}

static void check_rate(struct model_world *world, uint32_t label)
{
    struct model_flight *flight = &world->flights[label];
    uint64_t most = (uint64_t)BURST * MICRO;
    uint64_t come = (world->mono_us - flight->credited_us) * RATE_PER_S;
    bool first = flight->credited_us == 0;
    flight->credit = first || flight->credit + come > most ? most : flight->credit + come;
    flight->credited_us = world->mono_us;
    if (flight->credit < MICRO) {
        model_world_fail(world, "rate", "rollout %u is offered faster than %u a second", label,
                         RATE_PER_S);
        return;
    }
    flight->credit -= MICRO;
}

static void hear_offer(struct model_world *world, const struct model_device *device,
                       const struct wire_release *release)
{
    uint32_t label = label_of(&world->record, release->rollout_id);
    struct model_facts facts;
    if (label == MODEL_ROLLOUTS_MAX || release->stage_kind == POL_STAGE_SHADOW ||
        world->flights[label].unknown || !makes_counted_offers(world, release->rollout_id)) {
        return;
    }
    const struct model_rollout *rollout = &world->record.rollouts[label];
    uint64_t *offered_us = &world->flights[label].offered_us[device - world->devices];
    bool has = model_device_facts(device, rollout->task, &facts) && facts.have == rollout->version;
    if (has || *offered_us != 0) { // a lease is renewed, or an offer repeated
        return;
    }
    *offered_us = world->mono_us;
    if (rollout->pace == MODEL_PACE_STEADY) {
        check_rate(world, label);
    } else if (rollout->pace == MODEL_PACE_CAP) {
        check_cap(world, label);
    }
}

static void hear_offers(struct model_world *world, const struct model_device *device,
                        const struct gw_reply *reply)
{
    struct wire_offers offers;
    if (wire_offers_parse(reply->body, reply->body_bytes, &offers) != BASE_OK) {
        model_world_fail(world, "offers", "an answer to a check-in cannot be read");
        return;
    }
    for (uint32_t i = 0; i < offers.count; i++) {
        struct wire_envelope envelope;
        struct wire_release release;
        if (wire_envelope_parse(offers.items[i].envelope, offers.items[i].envelope_bytes,
                                &envelope) == BASE_OK &&
            envelope.type == WIRE_ENVELOPE_TYPE_RELEASE &&
            wire_release_parse(envelope.payload, envelope.payload_bytes, &release) == BASE_OK) {
            hear_offer(world, device, &release);
        }
    }
}

static void hear_report(struct model_world *world, const struct model_device *device,
                        const struct gw_request *request)
{
    static struct wire_report report;
    if (wire_report_parse(request->body, request->body_bytes, &report) != BASE_OK) {
        return;
    }
    for (uint32_t i = 0; i < report.count; i++) {
        const struct wire_outcome *outcome = &report.outcomes[i];
        uint32_t label = label_of(&world->record, outcome->rollout_id);
        bool under_way =
            outcome->kind == WIRE_OUTCOME_DOWNLOADED || outcome->kind == WIRE_OUTCOME_ACTIVATED;
        if (label < MODEL_ROLLOUTS_MAX && !under_way) {
            world->flights[label].offered_us[device - world->devices] = DONE;
        }
    }
}

void model_pace_heard(void *ctx, const struct model_device *device,
                      const struct gw_exchange *exchange)
{
    struct model_world *world = ctx;
    const struct gw_reply *reply = &exchange->reply;
    struct base_str path = exchange->request.path;
    if (!device->certified) {
        return;
    }
    if (base_str_equal(path, BASE_STR("/v1/checkin")) && reply->status == 200) {
        hear_offers(world, device, reply);
    } else if (base_str_equal(path, BASE_STR("/v1/report")) && reply->status == 204) {
        hear_report(world, device, &exchange->request);
    }
}

void model_pace_forget(struct model_world *world)
{
    for (uint32_t i = 0; i < MODEL_ROLLOUTS_MAX; i++) {
        world->flights[i].unknown = world->flights[i].unknown || world->record.rollouts[i].there;
    }
}
