// The decision for one task on one device: which version, from which rollout or rule, with which
// statement. Pure. checkin_answer.c asks on the worker's thread for each task of a cohort that
// depends on the device, draw.c asks what it would be; why.c, way_back.c and preview.c ask the same
// on their own threads, so an explanation or a preview cannot differ from an answer. Which version
// it is says policy/desired.h; here its input is gathered.
#include "svc/plan/want.h"

#include "policy/bucket.h"

// ---- Statements

// The statement that lets the device into the release: of the latest open stage whose audience
// and share it is in, since a later stage's signed share may be smaller than an earlier audience.
static const struct gw_statement *stage_statement(const struct gw_plan_task *task, uint8_t number,
                                                  uint64_t device_id, const struct pol_attrs *attrs)
{
    const struct gw_release *release = gw_plan_claim_release(task, number);
    uint32_t stage = gw_release_lets_in(release, gw_plan_claim_newest(task, number), task->shadow,
                                        device_id, attrs);
    return stage != GW_STAGE_NONE ? &release->statements[stage] : NULL;
}

// ---- Claims

// The claims of the plan's task that can matter here: those of the cohort's entries, and of the
// others (which do not target the device, or come after one that takes everybody) those of the
// version that it has; after a refusal, and where a base is held back from it, all bases (those
// behind the first one that takes everybody are approved before it, so no floor leads to them).
// Without a cohort: all.
struct claims {
    const struct gw_plan_task *task;
    bool all; // that the task has, also those that say nothing to the device's cohort
    uint32_t count;
    uint32_t statements; // bit n: the device refuses the statement of items[n], not the version
    struct pol_claim items[GW_PLAN_CLAIMS_MAX];
    uint8_t numbers[GW_PLAN_CLAIMS_MAX]; // in the task (svc/plan/cohort.h)
};

static enum pol_claim_state state_of(const struct gw_plan_task *task, uint8_t number,
                                     const struct gw_device_facts *facts)
{
    bool held = (facts->held >> number & 1u) != 0;
    if (number >= GW_PLAN_OPEN_MAX) {
        return held || task->bases[number - GW_PLAN_OPEN_MAX].held ? POL_CLAIM_HELD
                                                                   : POL_CLAIM_COMPLETED;
    }
    return held || task->open[number].state.state == POL_ROLLOUT_PAUSED ? POL_CLAIM_PAUSED
                                                                        : POL_CLAIM_OPEN;
}

// As if the share of its newest stage had the device (svc/plan/draw.h).
static bool is_let_in(uint8_t number, const struct gw_device_facts *facts)
{
    return number < GW_PLAN_OPEN_MAX && (facts->let_in >> number & 1u) != 0;
}

// Than the version that failed last.
static bool refuses_more(const struct gw_device_facts *facts)
{
    return facts->told != NULL && facts->told->refused_count > 0;
}

bool gw_want_failed_before(const struct gw_device_facts *facts, uint64_t task_id,
                           uint64_t version_id)
{
    return refuses_more(facts) &&
           wire_profile_refuses(facts->told, wire_profile_version_mark(task_id, version_id));
}

// What it has it took, whatever it says of it now.
static bool is_version_refused(const struct claims *claims, const struct pol_claim *claim,
                               const struct gw_device_facts *facts)
{
    return claim->version != facts->have && claim->version != facts->retry &&
           gw_want_failed_before(facts, claims->task->task_id, claim->version);
}

static bool is_refused(const struct gw_statement *statement, const struct gw_device_facts *facts)
{
    return statement != NULL &&
           wire_profile_refuses(facts->told, wire_profile_mark(statement->bytes, statement->size));
}

static void note_refusal(struct claims *claims, uint8_t number, struct pol_claim *claim,
                         const struct gw_device_facts *facts, const struct pol_attrs *attrs)
{
    claim->refused = is_version_refused(claims, claim, facts);
    const struct gw_release *release = gw_plan_claim_release(claims->task, number);
    const struct gw_statement *statement =
        is_let_in(number, facts) ? &release->statements[gw_plan_claim_newest(claims->task, number)]
                                 : stage_statement(claims->task, number, *facts->device_id, attrs);
    if (!claim->refused && claim->version != facts->have && is_refused(statement, facts)) {
        claim->refused = true;
        claims->statements |= UINT32_C(1) << claims->count;
    }
}

static void add_claim(struct claims *claims, uint8_t number, const struct gw_cohort_task *entry,
                      const struct gw_device_facts *facts, const struct pol_attrs *attrs)
{
    const struct gw_plan_task *task = claims->task;
    const struct gw_release *release = gw_plan_claim_release(task, number);
    struct gw_cohort_task looked_up;
    bool targeted = entry != NULL;
    if (entry == NULL) {
        targeted = gw_cohort_claim(task, number, attrs, &looked_up);
        entry = &looked_up;
    }
    bool arm = pol_arm_has(&release->arm, *facts->device_id);
    uint16_t bucket = pol_bucket(*facts->device_id, release->salt);
    struct pol_claim claim = {
        .version = release->version_id,
        .approved = release->release_counter,
        .priority = release->priority,
        .state = state_of(task, number, facts),
        .targeted = targeted && arm,
        .admitted = targeted && arm && (bucket < entry->limit || is_let_in(number, facts)),
        .inside = arm && bucket < gw_plan_claim_share(task, number),
        .held_off = entry->quarantined,
    };
    if (refuses_more(facts)) {
        note_refusal(claims, number, &claim, facts, attrs);
    }
    claims->numbers[claims->count] = number;
    claims->items[claims->count++] = claim;
}

static void list_claims(struct claims *claims, const struct gw_cohort_task *entries,
                        uint32_t entry_count, const struct gw_device_facts *facts,
                        const struct pol_attrs *attrs)
{
    const struct gw_plan_task *task = claims->task;
    uint32_t at = 0; // entries come in the order of their numbers
    bool bases = facts->blocked != 0 || refuses_more(facts) || facts->held >> GW_PLAN_OPEN_MAX != 0;
    for (uint32_t i = 0; i < task->open_count + task->base_count; i++) {
        bool open = i < task->open_count;
        uint8_t number = (uint8_t)(open ? i : GW_PLAN_OPEN_MAX + i - task->open_count);
        bool entered = at < entry_count && entries[at].claim == number;
        uint64_t version = gw_plan_claim_release(task, number)->version_id;
        if (claims->all || entered || version == facts->have || (!open && bases)) {
            add_claim(claims, number, entered ? &entries[at] : NULL, facts, attrs);
        }
        at += entered;
    }
}

// ---- How it gets there

static void order(const struct claims *claims, const struct gw_device_facts *facts,
                  const struct pol_attrs *attrs, struct gw_want *want)
{
    const struct gw_plan_task *task = claims->task;
    want->statement = stage_statement(task, want->number, *facts->device_id, attrs);
    if (want->number < GW_PLAN_OPEN_MAX) {
        const struct gw_plan_open *open = &task->open[want->number];
        want->shadow = task->shadow;
        want->install_open = want->statement != NULL;
        want->stage = gw_release_stage(want->release, open->state.stage_index, task->shadow);
    } else if (task->bases[want->number - GW_PLAN_OPEN_MAX].guarded) {
        want->install_open = want->statement != NULL;
        want->stage = gw_release_stage(want->release, want->release->stage_count - 1, false);
    }
}

// Does it leave what is claimed no more, or was approved later?
static bool leads_back(const struct claims *claims, uint64_t have, uint64_t approved)
{
    bool later = have != 0;
    for (uint32_t i = 0; i < claims->count; i++) {
        const struct pol_claim *claim = &claims->items[i];
        later = later && (claim->version != have || claim->approved > approved);
    }
    return later;
}

// Would it be another one, if no statement were refused?
static bool passes_over(const struct claims *claims, const struct pol_desired_device *device,
                        uint32_t claim)
{
    struct claims all = *claims;
    for (uint32_t i = 0; i < all.count; i++) {
        all.items[i].refused = all.items[i].refused && (all.statements >> i & 1) == 0;
    }
    return pol_desired(all.items, all.count, device).claim != claim;
}

// Would it be another one, if the device had no floor?
static bool is_floored(const struct claims *claims, const struct pol_desired_device *device,
                       uint32_t claim)
{
    struct pol_desired_device anything = *device;
    anything.floor = 0;
    return pol_desired(claims->items, claims->count, &anything).claim != claim;
}

static struct pol_desired_device device_of(const struct gw_device_facts *facts)
{
    return (struct pol_desired_device){.have = facts->have,
                                       .refused =
                                           facts->blocked != facts->retry ? facts->blocked : 0,
                                       .floor = facts->floor,
                                       .approved = facts->approved};
}

static struct gw_want decide(const struct claims *claims, const struct gw_device_facts *facts,
                             const struct pol_attrs *attrs)
{
    const struct gw_plan_task *task = claims->task;
    const struct pol_desired_device device = device_of(facts);
    struct pol_desired desired = pol_desired(claims->items, claims->count, &device);
    struct gw_want want = {.version_id = desired.version, .rule = desired.rule};
    want.refused = claims->statements != 0 && passes_over(claims, &device, desired.claim);
    want.floored = facts->floor != 0 && is_floored(claims, &device, desired.claim);
    bool moves = desired.version != facts->have;
    if (desired.rule == POL_DESIRED_NONE) {
        // A shadow is over when it is not offered again; of a task that nothing began of here, what
        // a device has is from elsewhere.
        want.stop = moves && task->begun;
        return want;
    }
    want.number = claims->numbers[desired.claim];
    want.release = gw_plan_claim_release(task, want.number);
    if (moves) {
        order(claims, facts, attrs, &want);
        want.back = leads_back(claims, facts->have, want.release->release_counter);
    }
    return want;
}

struct gw_want gw_want_decide(const struct gw_plan_task *task, const struct gw_cohort_task *entries,
                              uint32_t entry_count, const struct gw_device_facts *facts,
                              const struct pol_attrs *attrs)
{
    struct claims claims = {.task = task};
    list_claims(&claims, entries, entry_count, facts, attrs);
    return decide(&claims, facts, attrs);
}

struct gw_want gw_want_of(const struct gw_plan_task *task, const struct gw_device_facts *facts,
                          const struct pol_attrs *attrs)
{
    struct claims claims = {.task = task, .all = true};
    list_claims(&claims, NULL, 0, facts, attrs);
    return decide(&claims, facts, attrs);
}

static bool is_meant(const struct gw_release *release, uint64_t device_id,
                     const struct pol_attrs *attrs)
{
    return pol_arm_has(&release->arm, device_id) &&
           pol_target_match(&release->target, attrs).matched;
}

uint8_t gw_want_followed(const struct gw_plan_task *task, uint16_t priority, uint64_t self,
                         uint64_t device_id, const struct pol_attrs *attrs)
{
    for (uint8_t i = 0; i < task->open_count; i++) { // in the order in which a device asks them
        const struct gw_release *release = task->open[i].release;
        if (release->id == self || release->priority < priority) {
            break;
        }
        if (is_meant(release, device_id, attrs)) {
            return i;
        }
    }
    return GW_PLAN_OPEN_MAX;
}

uint32_t gw_want_waiting(const struct gw_plan_task *task, uint16_t priority, uint64_t self,
                         uint64_t device_id, const struct pol_attrs *attrs)
{
    uint32_t numbers = 0;
    bool after = false;
    for (uint8_t i = 0; i < task->open_count; i++) {
        const struct gw_release *release = task->open[i].release;
        bool own = release->id == self;
        after = after || own || release->priority < priority;
        if (after && !own && is_meant(release, device_id, attrs)) {
            numbers |= 1u << i;
        }
    }
    return numbers;
}

// Of a stage that failed, unless it is held: then a person decides, and no lease's end.
static bool leases_end(const struct pol_rollout *state, const struct gw_release *release)
{
    return state->stage_failed && release->stages[state->stage_index].on_fail != POL_ON_FAIL_HOLD;
}

const struct gw_statement *gw_want_held(const struct gw_plan_task *task, const struct gw_want *want,
                                        const struct gw_device_facts *facts,
                                        const struct pol_attrs *attrs)
{
    bool held = want->release != NULL && want->version_id == facts->have;
    bool open = held && want->number < GW_PLAN_OPEN_MAX;
    if (!held || (open && leases_end(&task->open[want->number].state, want->release))) {
        return NULL;
    }
    const struct gw_statement *statement =
        stage_statement(task, want->number, *facts->device_id, attrs);
    return refuses_more(facts) && is_refused(statement, facts) ? NULL : statement;
}
