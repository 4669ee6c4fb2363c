// Who answers "what should this device run?", against policy/desired.h, in random states: a record
// of rollouts of one task that were made, paused, promoted, aborted, undone and killed in any order
// (shares, audiences, targets, arms, priorities, floors, versions that come again), and devices
// that have and refuse anything. The function is asked with claims that the test reads from the
// record by itself: what it made, and each rollout's state as a replay of its log has it. Compared
// are
//
//   replay    that state with the state which the gateway shows;
//   why       what a device should run, and by which rollout, for what its reports say it has;
//   check-in  what a device that says anything else is ordered to run, or to stop;
//   preview   how many would be let in by each stage of a release that is not made, how many of
//             those follow another.
//
// The simulate stage is compared in fleet-sim/test_fleet_desired.c. WALLE_STATES: how many states.
#include "test_kit.h"

#include "core_rig.h"
#include "policy/bucket.h"
#include "policy/desired.h"
#include "policy/replay.h"
#include "svc/device/preview.h"
#include "svc/view/why.h"
#include "svc/device/touches.h"
#include "svc/rollout/catalog_private.h"
#include "svc/trust/director.h"
#include "svc/rollout/kill_commands.h"

#define STATES         100000u // record and device
#define DEVICES        200u
#define ROLLOUTS_MAX   20u // of a task, then comes another
#define REFUSED_MAX    6u  // likewise
#define VERSIONS       12u
#define STAGES         3u
#define REPORTS        6u // between two records
#define EXPERIMENT     77u
#define LOG_LINES      16u
#define OPERATIONS_MAX 3u // between two records
#define DOES_NOT_SAY   UINT64_MAX

struct made {
    uint64_t id;
    uint64_t version;
    struct wire_sha256 manifest;
    uint64_t counter;
    uint64_t salt;
    uint16_t priority;
    struct pol_arm arm;
    struct pol_target target;
    struct pol_stage stages[STAGES]; // kind, share, audience
    uint32_t stage_count;
    struct pol_rollout state; // replayed
};

struct record {
    char task[32];
    uint32_t count;
    struct made items[ROLLOUTS_MAX];
    uint32_t refused; // rollouts that were not made
    uint32_t killed_count;
    uint64_t killed[VERSIONS];
    uint64_t came_by[DEVICES][ROLLOUTS_MAX]; // 0: not drawn
};

struct answers {
    uint64_t states;
    uint64_t replays;
    uint64_t moves;
    uint64_t stops;
    uint64_t refusing;    // more than one version
    uint64_t by_approval; // had it not said by which rollout it has its version, it would keep that
    uint64_t drafts;
    uint64_t elsewhere;
    uint64_t by_rule[POL_DESIRED_RULE_COUNT];
};

static struct base_prng prng;
static struct rig rig;
static struct rig_device devices[DEVICES];
static struct record record;
static struct answers seen;
static uint64_t next_id = 1;
static uint32_t next_task = 1;

static uint32_t below(uint32_t bound)
{
    return (uint32_t)base_prng_below(&prng, bound);
}

// ---- Drawing

static const char *const os_names[] = {"a", "b", "c"};

// Conditions on one attribute, which live as long as the test.
static struct pol_target is(const char *attr, const char *value)
{
    static struct pol_value values[8];
    static struct pol_cond conds[8];
    static uint32_t count;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(conds[i].attr.data, attr) == 0 && strcmp(values[i].text.data, value) == 0) {
            return (struct pol_target){.conds = &conds[i], .cond_count = 1};
        }
    }
    assert_true(count < TEST_COUNT(conds));
    values[count].type = POL_TYPE_STRING;
    values[count].text = (struct pol_text){value, (uint32_t)strlen(value)};
    conds[count] = (struct pol_cond){{attr, (uint32_t)strlen(attr)}, POL_OP_EQ, &values[count], 1};
    return (struct pol_target){.conds = &conds[count++], .cond_count = 1};
}

// Stages that widen; the last one is for everybody, or for a share.
static uint32_t draw_stages(struct rig_stage out[STAGES])
{
    uint32_t count = 0;
    uint16_t share = (uint16_t)(1 + below(9000));
    const struct rig_stage base = {.min_sample = 1, .max_failure_ppm = 1000000};
    if (below(5) == 0) {
        out[count] = base;
        out[count].name = "try";
        out[count].kind = POL_STAGE_SIMULATE;
        out[count++].max_bucket = POL_BUCKET_COUNT;
    } else if (below(3) == 0) {
        out[count] = base;
        out[count].name = "beta";
        out[count].kind = POL_STAGE_BETA;
        out[count].attr = "channel";
        out[count].value = "beta";
        out[count++].max_bucket = POL_BUCKET_COUNT;
    }
    if (below(4) > 0) {
        out[count] = base;
        out[count].name = "some";
        out[count].kind = POL_STAGE_GRAY;
        out[count++].max_bucket = share;
    }
    bool full = below(3) > 0;
    out[count] = base;
    out[count].name = "last";
    out[count].kind = full ? POL_STAGE_FULL : POL_STAGE_GRAY;
    out[count++].max_bucket = full ? POL_BUCKET_COUNT : (uint16_t)(share + below(1000));
    return count;
}

static void copy_stages(const struct rig_stage *from, uint32_t count, struct pol_stage *out)
{
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (struct pol_stage){.kind = from[i].kind, .max_bucket = from[i].max_bucket};
        if (from[i].attr != NULL) {
            out[i].audience = is(from[i].attr, from[i].value);
        }
    }
}

static struct pol_arm draw_arm(void)
{
    struct pol_arm arm = {0};
    if (below(3) == 0) {
        arm.salt = EXPERIMENT;
        arm.from = (uint16_t)below(5000);
        arm.to = (uint16_t)(arm.from + 1 + below(5000));
    }
    return arm;
}

// ---- Making the record

// The one before has nothing for anybody any more.
static void another_task(void)
{
    struct base_error error = {0};
    for (uint32_t i = 0; i < record.count; i++) { // one of the two, where there is something
        (void)!gw_rollout_command(rig.core, record.items[i].id, POL_COMMAND_ABORT, NULL, &error);
        (void)!gw_rollout_command(rig.core, record.items[i].id, POL_COMMAND_UNDO, NULL, &error);
    }
    memset(&record, 0, sizeof(record));
    (void)snprintf(record.task, sizeof(record.task), "shop/t%u", (unsigned)next_task++);
    for (uint32_t i = 0; i < DEVICES; i++) {
        devices[i].pair_count = 0;
        // What a device says of its floor changes with what it follows alone: here, never.
        rig_device_task(&devices[i], record.task)->floor = below(6) == 0 ? below(ROLLOUTS_MAX) : 0;
    }
}

// Of some rollouts the last stage is guarded when it is over.
static uint32_t last_stage;

static void draw_guard(struct pol_stage *stage, uint32_t index)
{
    stage->guard_s = index == last_stage ? below(2) * 1000000 : 0;
}

static void make_rollout(void)
{
    struct rig_stage stages[STAGES];
    struct gw_rollout_view view;
    struct base_error error = {0};
    uint64_t floors[STAGES];
    char version[16];
    struct made *made = &record.items[record.count];
    const char *os = below(2) == 0 ? NULL : os_names[below(TEST_COUNT(os_names))];
    (void)snprintf(version, sizeof(version), "%u.0.0", 1 + below(VERSIONS));
    *made = (struct made){.id = next_id++};
    rig_version(&rig, record.task, version, &made->manifest);
    made->version = wire_version_id(&made->manifest);
    made->stage_count = draw_stages(stages);
    copy_stages(stages, made->stage_count, made->stages);
    last_stage = made->stage_count - 1;
    rig.conduct = draw_guard;
    rig.priority = (uint16_t)below(3);
    rig.arm = draw_arm();
    for (uint32_t i = 0; i < STAGES; i++) { // a floor now and then, and never above its own counter
        floors[i] = i > 0 ? floors[0] : below(6) == 0 ? 1 + below(record.count + 1) : 0;
    }
    rig.floors = floors;
    enum base_status status =
        rig_rollout(&rig, made->id, record.task, &made->manifest, os != NULL ? "os" : NULL, os,
                    stages, made->stage_count, &view, &error);
    rig.floors = NULL;
    if (status != BASE_OK) {
        record.refused++; // killed, or enough are open
        return;
    }
    made->priority = rig.priority;
    made->arm = rig.arm;
    made->counter = view.release_counter;
    made->salt = view.salt;
    if (os != NULL) {
        made->target = is("os", os);
    }
    record.count++;
}

static void note_kill(uint64_t version)
{
    for (uint32_t i = 0; i < record.killed_count; i++) {
        if (record.killed[i] == version) {
            return;
        }
    }
    assert_true(record.killed_count < VERSIONS);
    record.killed[record.killed_count++] = version;
}

static void command_one(void)
{
    static const enum pol_command commands[] = {
        POL_COMMAND_START,   POL_COMMAND_START,   POL_COMMAND_START, POL_COMMAND_START,
        POL_COMMAND_PROMOTE, POL_COMMAND_PROMOTE, POL_COMMAND_PAUSE, POL_COMMAND_PAUSE,
        POL_COMMAND_RESUME,  POL_COMMAND_ABORT,   POL_COMMAND_UNDO,
    };
    struct base_error error = {0};
    const struct made *made = &record.items[below(record.count)];
    bool created = false;
    uint32_t dice = below(150);
    if (dice == 0) {
        assert_int_equal(gw_trust_kill(rig.core,
                                       &(struct gw_kill_order){&made->manifest, BASE_STR("ana"),
                                                               BASE_STR("leaks")},
                                       &created, &error),
                         BASE_OK);
        note_kill(made->version);
        return;
    }
    enum pol_command command = dice == 1 ? POL_COMMAND_KILL : commands[below(TEST_COUNT(commands))];
    enum base_status status = gw_rollout_command(rig.core, made->id, command, NULL, &error);
    if (status == BASE_OK && command == POL_COMMAND_KILL) {
        note_kill(made->version);
    }
}

static void report_one(void)
{
    static const enum wire_outcome_kind kinds[] = {WIRE_OUTCOME_ACTIVATED, WIRE_OUTCOME_ACTIVATED,
                                                   WIRE_OUTCOME_RAN, WIRE_OUTCOME_FAIL_EXCEPTION,
                                                   WIRE_OUTCOME_ROLLED_BACK};
    struct gw_rollout_view view;
    if (record.count > 0) {
        rig_view(&rig, record.items[below(record.count)].id, &view);
        (void)rig_report(&rig, &devices[below(DEVICES)], &view, &kinds[below(TEST_COUNT(kinds))],
                         1);
    }
}

static void change_record(void)
{
    if (record.count == ROLLOUTS_MAX || record.refused == REFUSED_MAX) {
        another_task();
    }
    for (uint32_t i = 1 + below(OPERATIONS_MAX); i > 0; i--) {
        if (record.count == 0 || (record.count < ROLLOUTS_MAX && below(3) == 0)) {
            make_rollout();
        } else {
            command_one();
        }
    }
    for (uint32_t i = 0; i < REPORTS; i++) {
        rig_advance_s(&rig, 1);
        report_one();
    }
    rig_settle(&rig);
}

// ---- What the record says

// A rollout's state out of its log alone, by the gates it was made with.
static void replay(struct made *made)
{
    static struct gw_rollout_log_view lines[LOG_LINES];
    const struct gw_release *release = gw_catalog_find_rollout(rig.core, made->id)->release;
    struct pol_replay replay;
    struct gw_rollout_view view;
    uint64_t after = 0;
    struct gw_page page = {.limit = LOG_LINES, .more = true};
    pol_replay_init(&replay, 0);
    while (page.more) {
        assert_int_equal(gw_rollout_log(rig.core, made->id, after, lines, &page), BASE_OK);
        for (uint32_t i = 0; i < page.count; i++) {
            bool differs = false;
            if (replay.records == 0) {
                replay.rollout = lines[i].record.after; // made: a draft
            }
            (void)pol_replay_step(&replay, release->stages, release->stage_count, &lines[i].record,
                                  &differs);
            assert_false(differs);
            after = lines[i].seq;
        }
    }
    rig_view(&rig, made->id, &view);
    made->state = replay.rollout;
    assert_int_equal(made->state.state, view.state);
    assert_int_equal(made->state.stage_index, view.stage_index);
    assert_int_equal(made->state.before_first, view.before_first);
    // A view says besides whether the version is on the list.
    assert_int_equal(made->state.killed, gw_catalog_find_rollout(rig.core, made->id)->state.killed);
    seen.replays++;
}

static bool is_killed(uint64_t version)
{
    bool killed = false;
    for (uint32_t i = 0; i < record.killed_count; i++) {
        killed = killed || record.killed[i] == version;
    }
    return killed;
}

static bool lets_in(const struct pol_stage *stage, uint16_t bucket, const struct pol_attrs *attrs)
{
    return stage->kind != POL_STAGE_SIMULATE && bucket < stage->max_bucket &&
           pol_target_match(&stage->audience, attrs).matched;
}

// A rollout's claim on a device while `newest` is its newest open stage.
static struct pol_claim claim_of(const struct made *made, enum pol_claim_state state,
                                 uint32_t newest, uint64_t device_id, const struct pol_attrs *attrs)
{
    uint16_t bucket = pol_bucket(device_id, made->salt);
    bool arm = pol_arm_has(&made->arm, device_id);
    struct pol_claim claim = {.version = made->version,
                              .approved = made->counter,
                              .priority = made->priority,
                              .state = state,
                              .targeted = arm && pol_target_match(&made->target, attrs).matched};
    for (uint32_t i = 0; i <= newest; i++) {
        const struct pol_stage *stage = &made->stages[i];
        claim.admitted = claim.admitted || (claim.targeted && lets_in(stage, bucket, attrs));
        claim.inside = claim.inside ||
                       (arm && stage->kind != POL_STAGE_SIMULATE && bucket < stage->max_bucket);
    }
    return claim;
}

static uint32_t claims_of(uint64_t device_id, const struct pol_attrs *attrs,
                          struct pol_claim out[ROLLOUTS_MAX + 1], uint32_t which[ROLLOUTS_MAX + 1])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < record.count; i++) {
        const struct made *made = &record.items[i];
        enum pol_claim_state state;
        if (pol_rollout_claims(&made->state, &state) && !is_killed(made->version)) {
            which[count] = i;
            out[count++] = claim_of(made, state, made->state.stage_index, device_id, attrs);
        }
    }
    return count;
}

static struct pol_attrs attrs_of(const struct rig_device *device, struct pol_attr items[4])
{
    for (uint32_t i = 0; i < device->attrs.count; i++) {
        const struct wire_attr *attr = &device->attrs.items[i];
        items[i] =
            (struct pol_attr){.name = {attr->name.data, (uint32_t)attr->name.size},
                              .value = {.type = POL_TYPE_STRING,
                                        .text = {attr->text.data, (uint32_t)attr->text.size}}};
    }
    return (struct pol_attrs){items, device->attrs.count};
}

// Versions that failed on a device before the one that failed last.
struct before {
    uint32_t count;
    uint64_t versions[GW_WHY_REFUSED_MAX];
};

static bool is_before(const struct before *before, uint64_t version)
{
    bool found = false;
    for (uint32_t i = 0; i < before->count; i++) {
        found = found || before->versions[i] == version;
    }
    return found;
}

// The function's answer; *out_rollout the rollout whose version it is, 0: none.
static struct pol_desired ask(const struct rig_device *device,
                              const struct pol_desired_device *facts, const struct before *before,
                              uint64_t *out_rollout)
{
    struct pol_claim claims[ROLLOUTS_MAX + 1];
    uint32_t which[ROLLOUTS_MAX + 1];
    struct pol_attr items[4];
    struct pol_attrs attrs = attrs_of(device, items);
    uint32_t count = claims_of(device->id, &attrs, claims, which);
    for (uint32_t i = 0; i < count; i++) {
        claims[i].refused =
            claims[i].version != facts->have && is_before(before, claims[i].version);
    }
    struct pol_desired desired = pol_desired(claims, count, facts);
    *out_rollout = desired.claim < count ? record.items[which[desired.claim]].id : 0;
    return desired;
}

// What a finding is about.
static void show(const struct rig_device *device, const struct pol_desired_device *facts)
{
    print_message("has %llx by approval %llu, refuses %llx, floor %llu\n",
                  (unsigned long long)facts->have, (unsigned long long)facts->approved,
                  (unsigned long long)facts->refused, (unsigned long long)facts->floor);
    for (uint32_t i = 0; i < device->attrs.count; i++) {
        print_message("%s %s\n", device->attrs.items[i].name.data,
                      device->attrs.items[i].text.data);
    }
    for (uint32_t i = 0; i < record.count; i++) {
        const struct made *made = &record.items[i];
        print_message(
            "rollout %llu, version %llx%s, approved %llu, priority %u, %s, stage %u, "
            "bucket %u, %s, arm %u-%u %s\n",
            (unsigned long long)made->id, (unsigned long long)made->version,
            is_killed(made->version) ? " killed" : "", (unsigned long long)made->counter,
            made->priority, pol_rollout_state_name(made->state.state), made->state.stage_index,
            pol_bucket(device->id, made->salt),
            made->target.cond_count > 0 ? made->target.conds->operands->text.data : "everybody",
            made->arm.from, made->arm.to, pol_arm_has(&made->arm, device->id) ? "in" : "out");
        for (uint32_t k = 0; k < made->stage_count; k++) {
            print_message("  %s %u\n", pol_stage_kind_name(made->stages[k].kind),
                          made->stages[k].max_bucket);
        }
    }
}

// ---- Who answers

static void check_why(const struct rig_device *device)
{
    static struct gw_why_view why;
    struct base_error error = {0};
    uint64_t rollout = 0;
    assert_int_equal(gw_device_why(rig.core, device->id, base_str_of(record.task), &why, &error),
                     BASE_OK);
    const struct pol_desired_device facts = {why.has_version_id, why.refused_version_id, why.floor,
                                             why.has_counter};
    struct before before = {.count = why.refused_before_count};
    memcpy(before.versions, why.refused_before, sizeof(before.versions));
    struct pol_desired desired = ask(device, &facts, &before, &rollout);
    if (why.should_version_id != desired.version || why.should_rollout != rollout) {
        show(device, &facts);
        fail_msg("state %llu, device %llx: why says rollout %llu (%s), the function %llu (%s)",
                 (unsigned long long)seen.states, (unsigned long long)device->id,
                 (unsigned long long)why.should_rollout, why.why, (unsigned long long)rollout,
                 pol_desired_rule_name(desired.rule));
    }
}

static uint64_t any_version(void)
{
    uint32_t dice = below(record.count + 1);
    return dice == record.count ? 0 : record.items[dice].version;
}

// By which rollout of the version the device has it; 0: it does not say. Drawn once: it changes by
// an order alone, so a gateway need not look again while nothing else changed.
static uint64_t came_by(uint32_t device, uint64_t version)
{
    uint32_t first = 0;
    while (first < record.count && record.items[first].version != version) {
        first++;
    }
    if (first == record.count) {
        return 0;
    }
    uint64_t *by = &record.came_by[device][first];
    uint32_t met = 0;
    for (uint32_t i = *by == 0 ? first : record.count; i < record.count; i++) {
        met += record.items[i].version == version;
        *by = record.items[i].version == version && below(met) == 0 ? record.items[i].counter : *by;
    }
    *by = met > 0 && below(3) == 0 ? DOES_NOT_SAY : *by;
    return *by == DOES_NOT_SAY ? 0 : *by;
}

// What it names in its profile beside the version that failed last.
static void draw_before(struct rig_device *device, struct before *before)
{
    uint64_t task_id = wire_task_id(base_str_of(record.task));
    before->count = below(3) == 0 ? below(3) : 0;
    device->tasks_max = WIRE_PROFILE_TASKS_MAX;
    device->interval_s = 300;
    uint32_t drawn = before->count;
    before->count = 0;
    for (uint32_t i = 0; i < drawn; i++) {
        uint64_t version = record.items[below(record.count)].version;
        if (!is_before(before, version)) { // none twice
            device->refused[before->count] = wire_profile_version_mark(task_id, version);
            before->versions[before->count++] = version;
        }
    }
    device->refused_count = before->count;
}

// Was anything of the task started, or ended? Else no device is ordered anything, not to stop
// either (docs/OPERATIONS.md, An older copy).
static bool is_begun(void)
{
    bool begun = false;
    for (uint32_t i = 0; i < record.count; i++) {
        begun = begun || record.items[i].state.state != POL_ROLLOUT_DRAFT;
    }
    return begun;
}

// The device says anything, and is ordered to what the function says.
static void check_checkin(struct rig_device *device)
{
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_release release;
    uint64_t rollout = 0;
    uint64_t stopped = 0;
    struct wire_profile_pair *pair = rig_device_task(device, record.task);
    pair->version_id = any_version();
    pair->approved = came_by((uint32_t)(device - devices), pair->version_id);
    pair->blocked_version_id = below(3) == 0 ? any_version() : 0;
    pair->blocked_version_id =
        pair->blocked_version_id == pair->version_id ? 0 : pair->blocked_version_id;
    const struct pol_desired_device facts = {pair->version_id, pair->blocked_version_id,
                                             pair->floor, pair->approved};
    struct pol_desired_device silent = facts;
    struct before before;
    draw_before(device, &before);
    silent.approved = 0;
    uint64_t kept = ask(device, &silent, &before, &rollout).version;
    struct pol_desired desired = ask(device, &facts, &before, &rollout);
    uint64_t expected = is_begun() ? desired.version : facts.have;
    bool moves = expected != facts.have;
    int status = rig_checkin(&rig, device, true, &exchange, &offers);
    bool ordered = status == 200 && offers.count == 1;
    bool stops = ordered && rig_offer_stops(&offers, 0, &stopped);
    uint64_t version = facts.have;
    if (ordered && !stops) {
        rig_offer_release(&offers, 0, &release);
        version = wire_version_id(&release.manifest);
    }
    version = stops ? 0 : version;
    rig_exchange_done(&exchange);
    if (version != expected || ordered != moves || offers.count > 1) {
        show(device, &facts);
        print_message("refuses %u besides\n", before.count);
        fail_msg("state %llu, device %llx: a check-in leads to %llx, the function to %llx (%s)",
                 (unsigned long long)seen.states, (unsigned long long)device->id,
                 (unsigned long long)version, (unsigned long long)expected,
                 pol_desired_rule_name(desired.rule));
    }
    seen.by_rule[desired.rule]++;
    seen.moves += moves;
    seen.refusing += before.count > 0;
    seen.by_approval += kept != desired.version;
    seen.stops += stops;
}

// A release that is not made: the function is asked with its claim besides, stage by stage.
static void check_preview(void)
{
    struct rig_stage stages[STAGES];
    struct gw_preview_stage wanted[STAGES] = {{0}};
    uint64_t elsewhere = 0;
    static struct gw_preview preview;
    struct made draft = {.version = 1,
                         .counter = UINT64_MAX,
                         .priority = (uint16_t)below(3),
                         .salt = 1 + base_prng_below(&prng, UINT32_MAX),
                         .arm = draw_arm()};
    draft.stage_count = draw_stages(stages);
    copy_stages(stages, draft.stage_count, draft.stages);
    if (below(2) == 0) {
        draft.target = is("os", os_names[below(TEST_COUNT(os_names))]);
    }
    struct gw_preview_spec spec = {
        .target = draft.target,
        .stages = draft.stages,
        .stage_count = draft.stage_count,
        .salt = draft.salt,
        .arm = draft.arm,
        .task = gw_plan_find(rig.core->plan, wire_task_id(base_str_of(record.task))),
        .priority = draft.priority,
    };
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct pol_claim claims[ROLLOUTS_MAX + 1];
        uint32_t which[ROLLOUTS_MAX + 1];
        struct pol_attr items[4];
        struct pol_attrs attrs = attrs_of(&devices[i], items);
        uint32_t count = claims_of(devices[i].id, &attrs, claims, which);
        bool inside = false;
        for (uint32_t s = 0; s < draft.stage_count; s++) {
            claims[count] = claim_of(&draft, POL_CLAIM_OPEN, s, devices[i].id, &attrs);
            bool in =
                pol_desired(claims, count + 1, &(struct pol_desired_device){0}).claim == count;
            wanted[s].devices += in && !inside;
            wanted[s].total += in;
            inside = inside || in;
        }
        elsewhere += claims[count].admitted && !inside;
    }
    assert_int_equal(gw_preview_run(rig.core, &spec, &preview), BASE_OK);
    assert_int_equal(preview.devices, DEVICES);
    assert_int_equal(preview.elsewhere, elsewhere);
    uint64_t followed = 0;
    for (uint32_t i = 0; i < TEST_COUNT(preview.followed); i++) {
        followed += preview.followed[i].devices;
        assert_true(preview.followed[i].devices == 0 || preview.followed[i].rollout != 0);
    }
    assert_int_equal(followed, elsewhere);
    for (uint32_t s = 0; s < draft.stage_count; s++) {
        assert_int_equal(preview.stages[s].devices, wanted[s].devices);
        assert_int_equal(preview.stages[s].total, wanted[s].total);
    }
    seen.drafts++;
    seen.elsewhere += elsewhere;
}

static void everybody_agrees_with_the_function(void **state)
{
    const char *more = getenv("WALLE_STATES");
    uint64_t states = more != NULL ? strtoull(more, NULL, 10) : STATES;
    (void)state;
    test_seed(&prng);
    rig_init(&rig);
    rig.certified = true; // of strangers nothing is remembered
    rig_start(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        rig_device_init(&devices[i], base_mix64(90000 + i));
        rig_device_attr(&devices[i], "channel", i % 4 == 0 ? "beta" : "stable");
        rig_device_attr(&devices[i], "os", os_names[i % TEST_COUNT(os_names)]);
    }
    another_task();
    while (seen.states < states) {
        change_record();
        for (uint32_t i = 0; i < record.count; i++) {
            replay(&record.items[i]);
        }
        for (uint32_t i = 0; i < DEVICES && record.count > 0; i++) {
            check_checkin(&devices[i]);
            gw_worker_flush_touches(rig.worker.worker);
            check_why(&devices[i]);
            seen.states++;
        }
        if (record.count > 0) {
            check_preview();
        }
    }
    print_message(
        "%llu states, %llu replays, %llu moves, %llu stops, %llu previews (%llu elsewhere)\n",
        (unsigned long long)seen.states, (unsigned long long)seen.replays,
        (unsigned long long)seen.moves, (unsigned long long)seen.stops,
        (unsigned long long)seen.drafts, (unsigned long long)seen.elsewhere);
    for (uint32_t i = 0; i < POL_DESIRED_RULE_COUNT; i++) {
        print_message("%s %llu\n", pol_desired_rule_name((enum pol_desired_rule)i),
                      (unsigned long long)seen.by_rule[i]);
        assert_true(seen.by_rule[i] > 0);
    }
    assert_true(seen.refusing > 0 && seen.by_approval > 0);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_agrees_with_the_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
