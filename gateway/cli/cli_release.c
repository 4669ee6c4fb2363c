// Commands that make rollouts: plan (which needs no key), sign, submit and start. The table in
// cli_commands.c names them; one thread. What this machine can refuse (stages, version, power,
// cost, the served root) is refused before a simulation is run and before the gateway makes
// anything. Stages are ladder.c's, signatures rollout_draft.c's. Private release keys are read
// here.
#include "cli/base/cli.h"
#include "cli/base/cli_http.h"
#include "cli/base/cli_json.h"
#include "cli/simulate/plan_simulate.h"
#include "cli/stages/evidence_gate.h"
#include "cli/rollout/followed_warning.h"
#include "cli/stages/ladder.h"
#include "cli/stages/stage_check.h"
#include "cli/rollout/plan_show.h"
#include "cli/rollout/present_warning.h"
#include "cli/rollout/rollout_begin.h"
#include "cli/rollout/rollout_cost.h"
#include "cli/rollout/rollout_draft.h"
#include "cli/rollout/rollout_evidence.h"
#include "cli/rollout/rollout_power.h"
#include "cli/rollout/rollout_show.h"
#include "cli/task/rollout_version.h"
#include "cli/rollout/rollout_watch.h"
#include "cli/rollout/sample_warning.h"
#include "cli/rollout/served_root.h"

#include "base/os/output_file.h"
#include "base/text/terminal.h"
#include "base/clock.h"
#include "base/prng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTER_MAX ((UINT64_C(1) << 53) - 1) // of the API
#define START_TRIES 3                         // while other rollouts of the task come and go

// With --gateway: whom the target and the stages would reach there.
static enum cli_exit ask_preview(const struct cli *cli, const json_t *target, json_t *stages,
                                 json_t **out_preview)
{
    static const char *const kept[] = {"kind", "percent", "audience"};
    json_t *list = json_array();
    size_t index;
    json_t *stage;

    json_array_foreach(stages, index, stage)
    {
        json_t *item = json_object();
        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); ++i) {
            json_t *value = json_object_get(stage, kept[i]);
            if (value != NULL) {
                (void)json_object_set(item, kept[i], value);
            }
        }
        (void)json_array_append_new(list, item);
    }
    json_t *body = json_pack("{s:O, s:o}", "target", target, "stages", list);
    uint64_t priority = 0;
    enum cli_exit code = cli_option_u64(cli, CLI_OPTION_PRIORITY, 0, 1000, &priority);
    if (cli->arg_count > 0) {
        (void)json_object_set_new(body, "task", json_string(cli->args[0]));
        (void)json_object_set_new(body, "priority", json_integer((json_int_t)priority));
    }
    if (code == CLI_EXIT_OK) {
        code = cli_api_call(cli, "POST", "/api/v1/rollouts/preview", body, out_preview);
    }
    json_decref(body);
    return code;
}

// What a plan is made of. Zeroed; plan_done releases it.
struct plan {
    json_t *stages;
    json_t *target;
    json_t *preview;    // NULL: no gateway was asked
    json_t *cost;       // NULL: of no version
    json_t *simulation; // NULL: none was made
};

static void plan_done(struct plan *plan)
{
    json_decref(plan->stages);
    json_decref(plan->target);
    json_decref(plan->preview);
    json_decref(plan->cost);
    json_decref(plan->simulation);
}

static void warn_of_present(const struct cli *cli, const char *task,
                            const struct wire_sha256 *manifest)
{
    char hex[WIRE_SHA256_HEX + 1];

    wire_sha256_hex(manifest, hex);
    present_warning(cli, task, hex);
}

// Whom the plan's devices would follow before it.
static enum cli_exit warn_of_followed(const struct cli *cli, const json_t *target)
{
    uint64_t priority = 0;
    enum cli_exit code = cli_option_u64(cli, CLI_OPTION_PRIORITY, 0, 1000, &priority);

    if (code == CLI_EXIT_OK && cli->arg_count > 0) {
        json_t *rollout = json_pack("{s:s, s:I, s:O}", "task", cli->args[0], "priority",
                                    (json_int_t)priority, "target", target);
        followed_warning(cli, rollout);
        json_decref(rollout);
    }
    return code;
}

static enum cli_exit plan_version(const struct cli *cli, struct plan *plan)
{
    struct rollout_version version = {0};

    if (cli->arg_count == 0 && !rollout_version_given(cli)) {
        return CLI_EXIT_OK;
    }
    if (cli->arg_count == 0) {
        return cli_fail(CLI_EXIT_USAGE, "whose version? TASK is missing");
    }
    enum cli_exit code = rollout_version_choose(cli, cli->args[0], &version);
    if (code == CLI_EXIT_OK) {
        warn_of_present(cli, cli->args[0], &version.manifest);
        code = rollout_cost_ask(cli, cli->args[0], &version.manifest, plan->target, &plan->cost);
    }
    return code;
}

// `starts`: what the dry run of a start came to; NULL: none was made.
static void show_json(const struct plan *plan, json_t *starts)
{
    json_t *root = json_pack("{s:O, s:O, s:O?, s:O?, s:O*, s:o*}", "target", plan->target, "stages",
                             plan->stages, "preview", plan->preview, "cost", plan->cost,
                             "simulation", plan->simulation, "starts", starts);

    cli_json_print(root);
    json_decref(root);
}

static enum cli_exit show_plan(const struct cli *cli, const struct plan *plan)
{
    bool sees = false;

    plan_show_stages(plan->stages);
    if (plan->preview != NULL) {
        plan_show_preview(plan->preview, plan->stages);
    }
    rollout_cost_print(stdout, plan->cost);
    return rollout_power(cli, plan->stages, stdout, &sees);
}

// `asked`: the gateway is asked even when it was not named.
static enum cli_exit make_plan(const struct cli *cli, bool asked, struct plan *plan)
{
    enum cli_exit code = ladder_stages(cli, &plan->stages);

    if (code == CLI_EXIT_OK) {
        code = ladder_target(cli, &plan->target);
    }
    if (code == CLI_EXIT_OK && (asked || cli_given(cli, CLI_OPTION_GATEWAY))) {
        code = ask_preview(cli, plan->target, plan->stages, &plan->preview);
        if (code == CLI_EXIT_OK) {
            code = warn_of_followed(cli, plan->target);
        }
    }
    if (code == CLI_EXIT_OK) {
        ladder_warn(plan->stages);
    }
    // A simulation has a gateway of its own: no other is asked for its sake.
    bool alone = cli_given(cli, CLI_OPTION_SIMULATE) && !cli_given(cli, CLI_OPTION_GATEWAY);
    return code == CLI_EXIT_OK && !alone ? plan_version(cli, plan) : code;
}

enum cli_exit cli_rollout_plan(struct cli *cli)
{
    struct plan plan = {0};
    enum cli_exit code = make_plan(cli, false, &plan);

    if (code == CLI_EXIT_OK && cli_given(cli, CLI_OPTION_SIMULATE)) {
        code = plan_simulate(cli, plan.stages, &plan.simulation);
    }
    if (code == CLI_EXIT_OK && cli->json) {
        show_json(&plan, NULL);
    } else if (code == CLI_EXIT_OK) {
        code = show_plan(cli, &plan);
        if (plan.simulation != NULL) {
            plan_simulation_show(plan.simulation);
        }
    }
    plan_done(&plan);
    return code;
}

// ---- Start

// The oldest release that may follow: the one that is named, this one too, else the baseline.
static enum cli_exit fetch_floor(const struct cli *cli, const char *rollout,
                                 struct rollout_draft *draft)
{
    char path[CLI_PATH_MAX];
    json_t *baseline = NULL;
    const char *named = cli->values[CLI_OPTION_FLOOR];

    draft->floor = 0;
    if (named != NULL && strcmp(named, draft->version) == 0) {
        draft->floor = draft->release_counter;
        return CLI_EXIT_OK;
    }
    if (named != NULL) {
        return rollout_version_released(cli, draft->task, named, &draft->floor);
    }
    if (rollout == NULL) {
        return CLI_EXIT_OK;
    }
    (void)snprintf(path, sizeof(path), "/api/v1/rollouts/%.16s", rollout);
    enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &baseline);
    draft->floor = cli_json_u64(baseline, "release_counter");
    json_decref(baseline);
    return code;
}

// The number that is named, which has to be above the task's `used`; else the next one.
static enum cli_exit choose_counter(const struct cli *cli, uint64_t used, uint64_t *out)
{
    enum cli_exit code = cli_option_u64(cli, CLI_OPTION_COUNTER, used + 1, COUNTER_MAX, out);

    return code != CLI_EXIT_OK || *out > used
               ? code
               : cli_fail(
                     CLI_EXIT_USAGE,
                     "--release-counter %llu: the task's newest release has %llu here, and the "
                     "next one needs a higher one",
                     (unsigned long long)*out, (unsigned long long)used);
}

// Counter and floor, from the gateway.
static enum cli_exit fetch_task(const struct cli *cli, struct rollout_draft *draft)
{
    char path[CLI_PATH_MAX] = "/api/v1/tasks/";
    json_t *task = NULL;

    if (!cli_path_add(path, sizeof(path), draft->task)) {
        return cli_fail(CLI_EXIT_USAGE, "task name too long");
    }
    enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &task);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    code = choose_counter(cli, cli_json_u64(task, "release_counter"), &draft->release_counter);
    const json_t *baseline = json_object_get(task, "baseline");
    if (code == CLI_EXIT_OK) {
        code = fetch_floor(cli, cli_json_text(baseline, "rollout", NULL), draft);
    }
    json_decref(task);
    return code;
}

// The arm of an experiment: --arm-from and --arm-to in percent, and the experiment's salt, the same
// for all its arms.
static enum cli_exit fill_arm(const struct cli *cli, struct rollout_draft *draft)
{
    double from = 0;
    double to = 100;
    enum cli_exit code = cli_option_u64(cli, CLI_OPTION_PRIORITY, 0, 1000, &draft->priority);

    if (code != CLI_EXIT_OK ||
        (code = cli_option_real(cli, CLI_OPTION_ARM_FROM, 0, 99.99, &from)) != CLI_EXIT_OK ||
        (code = cli_option_real(cli, CLI_OPTION_ARM_TO, 100, 100, &to)) != CLI_EXIT_OK ||
        !cli_given(cli, CLI_OPTION_EXPERIMENT)) {
        return code;
    }
    draft->arm_from = (uint16_t)lround(from * 100);
    draft->arm_to = (uint16_t)lround(to * 100);
    if (draft->arm_from >= draft->arm_to) {
        return cli_fail(CLI_EXIT_USAGE, "--arm-to is not above --arm-from");
    }
    if (wire_device_parse(base_str_of(cli->values[CLI_OPTION_EXPERIMENT]), &draft->arm_salt) !=
            BASE_OK ||
        draft->arm_salt == 0) {
        return cli_fail(CLI_EXIT_USAGE, "--experiment takes 16 hex digits, not all 0");
    }
    return CLI_EXIT_OK;
}

static enum cli_exit fill_draft(const struct cli *cli, struct rollout_draft *draft)
{
    uint64_t days = 0;
    const struct cli_range range = {1, 3650, ROLLOUT_DRAFT_DAYS, NULL};
    enum cli_exit code = cli_option_range(cli, CLI_OPTION_EXPIRES, &range, &days);

    struct rollout_version version = {0};

    draft->task = cli->args[0];
    if (code == CLI_EXIT_OK) {
        code = rollout_version_choose(cli, draft->task, &version);
    }
    draft->manifest = version.manifest;
    draft->manifest_bytes = version.manifest_bytes;
    memcpy(draft->version, version.number, sizeof(draft->version));
    if (code == CLI_EXIT_OK) {
        code = fetch_task(cli, draft);
    }
    draft->id = base_entropy_u64() | 1u;
    draft->salt = base_entropy_u64() | 1u;
    draft->issued_s = base_clock_wall_us() / 1000000;
    draft->expires_s = draft->issued_s + days * 24 * 3600;
    return code == CLI_EXIT_OK ? fill_arm(cli, draft) : code;
}

// A stage that declares a rise it cannot see is a false comfort: say so before anything starts.
static enum cli_exit check_power(const struct cli *cli, const json_t *stages)
{
    bool sees = false;
    bool shown = cli_given(cli, CLI_OPTION_DRY_RUN); // with the plan
    enum cli_exit code = rollout_power(cli, stages, shown ? NULL : stderr, &sees);

    if (code != CLI_EXIT_OK || sees || cli_given(cli, CLI_OPTION_ACCEPT_POWER)) {
        return code;
    }
    return cli_fail(CLI_EXIT_USAGE,
                    cli_given(cli, CLI_OPTION_FLEET)
                        ? "no stage before the full one can see the rise it declares; widen a "
                          "stage, or --accept-power"
                        : "--fleet N (devices the target has) is needed to tell whether a stage "
                          "can see the rise it declares; or --accept-power");
}

// What a phone could not hold is said before anything is signed; the gateway refuses it as well.
static enum cli_exit check_cost(const struct cli *cli, const struct rollout_draft *draft,
                                const json_t *target)
{
    json_t *cost = NULL;
    enum cli_exit code = rollout_cost_ask(cli, draft->task, &draft->manifest, target, &cost);

    if (code == CLI_EXIT_OK) {
        code = rollout_cost_check(cli, cost);
    }
    json_decref(cost);
    return code;
}

static enum cli_exit make_body(const struct cli *cli, const struct rollout_draft *draft,
                               json_t **out_body)
{
    struct signing_keys keys = {.count = 0};
    struct base_error error = {0};
    json_t *stages = NULL;
    json_t *target = NULL;
    enum cli_exit code = ladder_stages(cli, &stages);

    if (code == CLI_EXIT_OK) {
        code = check_power(cli, stages);
    }
    if (code == CLI_EXIT_OK) {
        code = ladder_target(cli, &target);
    }
    if (code == CLI_EXIT_OK) {
        code = check_cost(cli, draft, target);
    }
    if (code == CLI_EXIT_OK &&
        (signing_keys_load(cli->values[CLI_OPTION_KEY], &keys, &error) != BASE_OK ||
         rollout_draft_body(draft, &keys, (struct rollout_ladder){stages, target}, out_body,
                            &error) != BASE_OK)) {
        code = cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    signing_keys_done(&keys);
    json_decref(stages);
    json_decref(target);
    return code;
}

// One step of a rollout that was made; *rollout is replaced by what it is then.
static enum cli_exit step(const struct cli *cli, const char *id, const char *name, json_t *body,
                          json_t **rollout)
{
    char path[CLI_PATH_MAX];

    (void)snprintf(path, sizeof(path), "/api/v1/rollouts/%.16s/%s", id, name);
    json_decref(*rollout);
    *rollout = NULL;
    return cli_api_call(cli, "POST", path, body, rollout);
}

// Would the gateway make and start this, and take the evidence (NULL: none)?
static enum cli_exit check_all(const struct cli *cli, const json_t *body, const json_t *evidence)
{
    json_t *whole = json_copy((json_t *)(uintptr_t)body);
    json_t *answer = NULL;

    if (evidence != NULL) {
        (void)json_object_update(whole, (json_t *)(uintptr_t)evidence);
    }
    enum cli_exit code = cli_api_call(cli, "POST", "/api/v1/rollouts/check", whole, &answer);
    json_decref(answer);
    json_decref(whole);
    return code;
}

// Creates the rollout (*out_made) and, unless --no-start, starts it and posts its evidence (NULL:
// none).
static enum cli_exit create(const struct cli *cli, const json_t *body, json_t *evidence,
                            json_t **out_rollout, bool *out_made)
{
    json_t *who = json_object();
    const char *id = cli_json_text(body, "id", "");
    // Evidence that is refused is not to leave a rollout that waits for it.
    enum cli_exit code = evidence != NULL ? check_all(cli, body, evidence) : CLI_EXIT_OK;

    if (code == CLI_EXIT_OK) {
        code = evidence_gate_check(json_object_get(body, "stages"), evidence, false);
    }
    // One of failures ends the rollout, for all to see why.
    if (code == CLI_EXIT_OK || code == CLI_EXIT_FAILED) {
        code = cli_api_call(cli, "POST", "/api/v1/rollouts", body, out_rollout);
        *out_made = code == CLI_EXIT_OK;
    }
    cli_add_who(cli, who);
    if (code == CLI_EXIT_OK && !cli_given(cli, CLI_OPTION_NO_START)) {
        code = step(cli, id, "start", who, out_rollout);
    }
    if (code == CLI_EXIT_OK && evidence != NULL) {
        cli_add_who(cli, evidence);
        code = step(cli, id, "simulation", evidence, out_rollout);
        if (code != CLI_EXIT_OK) {
            fprintf(stderr, "rollout %s waits in its simulate stage\n", id);
        }
    }
    json_decref(who);
    return code;
}

// Creates what `body` says, shows it, and watches when asked to. Takes body; `evidence` may be
// NULL.
static enum cli_exit create_take(struct cli *cli, json_t *body, json_t *evidence, bool *out_made)
{
    char id[WIRE_DEVICE_HEX + 1] = "";
    json_t *rollout = NULL;

    (void)snprintf(id, sizeof(id), "%.16s", cli_json_text(body, "id", ""));
    enum cli_exit code = create(cli, body, evidence, &rollout, out_made);
    json_decref(body);
    if (code != CLI_EXIT_OK) {
        json_decref(rollout);
        return code;
    }
    bool watching = cli_given(cli, CLI_OPTION_WATCH);
    enum cli_exit end = rollout_exit(rollout); // its simulation may have failed already
    if (cli->json && !watching) {
        cli_json_print(rollout);
    } else if (!cli->json) {
        rollout_show_line(stdout, rollout);
        rollout_begin_hint(rollout);
    }
    json_decref(rollout);
    return watching ? rollout_watch(cli, id) : end;
}

static enum cli_exit write_draft(const char *path, const json_t *body)
{
    struct base_error error = {0};
    char *text = json_dumps(body, JSON_INDENT(2));
    enum cli_exit code = CLI_EXIT_OK;

    if (text == NULL || base_output_write(path, text, strlen(text), &error) != BASE_OK) {
        code = cli_fail(CLI_EXIT_LOCAL, "%s", text == NULL ? "out of memory" : error.text);
    }
    free(text);
    if (code == CLI_EXIT_OK) { // not on standard output, which the draft may go to
        fprintf(stderr,
                "walle: the signed draft is in %s; others sign it with walle task sign %s --key "
                "FILE, and walle rollout submit %s makes the rollout\n",
                path, path, path);
    }
    return code;
}

// Adds signatures to the statement at `object.name`, when there is one.
static enum base_status sign_member(const struct signing_keys *keys, json_t *object,
                                    const char *name)
{
    uint8_t before[WIRE_STATEMENT_BYTES_MAX];
    uint8_t after[WIRE_STATEMENT_BYTES_MAX];
    char encoded[BASE_B64_ENCODED(WIRE_STATEMENT_BYTES_MAX)];
    const char *text = cli_json_text(object, name, NULL);
    struct wire_envelope envelope;
    size_t size = 0;

    if (text == NULL) {
        return BASE_OK;
    }
    BASE_TRY(base_b64_decode(base_str_of(text), before, sizeof(before), &size));
    BASE_TRY(wire_envelope_parse(before, size, &envelope));
    BASE_TRY(signing_envelope(keys, &envelope, after, sizeof(after), &size));
    json_t *value = json_stringn(encoded, base_b64_encode(after, size, encoded));
    return json_object_set_new(object, name, value) == 0 ? BASE_OK : BASE_ERR_NOMEM;
}

static enum base_status sign_draft(const struct signing_keys *keys, json_t *body)
{
    bool signs = false;
    size_t index;
    json_t *stage;

    json_array_foreach(json_object_get(body, "stages"), index, stage)
    {
        signs = signs || cli_json_text(stage, "statement", NULL) != NULL;
        BASE_TRY(sign_member(keys, stage, "statement"));
    }
    return signs ? BASE_OK : BASE_ERR_INVALID; // the last stage of a draft has a statement
}

enum cli_exit cli_task_sign(struct cli *cli)
{
    struct signing_keys keys = {.count = 0};
    struct base_error error = {0};
    json_t *body = NULL;
    enum cli_exit code = CLI_EXIT_OK;

    if (!cli_given(cli, CLI_OPTION_KEY)) {
        return cli_fail(CLI_EXIT_USAGE, "--key FILE is missing: a private key that signs");
    }
    if (cli_json_load(cli->args[0], &body, &error) != BASE_OK ||
        signing_keys_load(cli->values[CLI_OPTION_KEY], &keys, &error) != BASE_OK) {
        code = cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    if (code == CLI_EXIT_OK) {
        enum base_status status = sign_draft(&keys, body);
        code = status == BASE_OK ? write_draft(cli->args[0], body)
                                 : cli_fail(CLI_EXIT_LOCAL, "%s: no draft of a rollout: %s",
                                            cli->args[0], base_status_text(status));
    }
    signing_keys_done(&keys);
    json_decref(body);
    return code;
}

// What was accepted and who did it go with the rollout.
static void add_consent(const struct cli *cli, json_t *body)
{
    cli_add_who(cli, body);
    if (cli_given(cli, CLI_OPTION_ACCEPT_COST)) {
        (void)json_object_set_new(body, "accept_cost", json_true());
    }
    if (cli_given(cli, CLI_OPTION_ACCEPT_EMPTY)) {
        (void)json_object_set_new(body, "accept_empty", json_true());
    }
}

// Evidence is for a stage that is open.
static enum cli_exit check_evidence(const struct cli *cli)
{
    bool later = cli_given(cli, CLI_OPTION_NO_START) || cli_given(cli, CLI_OPTION_DRAFT);

    return cli_given(cli, CLI_OPTION_EVIDENCE) && later
               ? cli_fail(CLI_EXIT_USAGE, "--evidence is taken when the rollout starts")
               : CLI_EXIT_OK;
}

enum cli_exit cli_rollout_submit(struct cli *cli)
{
    struct base_error error = {0};
    json_t *body = NULL;
    bool made = false;

    json_t *evidence = NULL;
    if (cli_json_load(cli->args[0], &body, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    enum cli_exit code = check_evidence(cli);
    if (code == CLI_EXIT_OK) {
        code = stage_check(json_object_get(body, "stages"), true); // people may have changed it
    }
    if (code == CLI_EXIT_OK) {
        code = served_root_check(cli, body);
    }
    if (code == CLI_EXIT_OK) {
        code = served_counter_check(cli, body);
    }
    if (code == CLI_EXIT_OK && cli_given(cli, CLI_OPTION_EVIDENCE)) {
        code = rollout_evidence_load(cli->values[CLI_OPTION_EVIDENCE], &evidence);
    }
    if (code != CLI_EXIT_OK) {
        json_decref(body);
        return code;
    }
    present_warning(cli, cli_json_text(body, "task", NULL), cli_json_text(body, "manifest", NULL));
    followed_warning(cli, body);
    sample_warning(cli, body);
    served_root_warning(cli);
    ladder_warn(json_object_get(body, "stages"));
    add_consent(cli, body);
    code = create_take(cli, body, evidence, &made);
    json_decref(evidence);
    return code;
}

// The draft and its signed body, of what the gateway has now.
static enum cli_exit draw(const struct cli *cli, struct rollout_draft *out_draft, json_t **out_body)
{
    *out_draft = (struct rollout_draft){0};
    *out_body = NULL;
    enum cli_exit code = fill_draft(cli, out_draft);
    if (code == CLI_EXIT_OK) {
        code = make_body(cli, out_draft, out_body);
    }
    if (code != CLI_EXIT_OK) {
        json_decref(*out_body);
        *out_body = NULL;
    } else if (cli_given(cli, CLI_OPTION_TRUST_UNPROVEN)) {
        (void)json_object_set_new(*out_body, "trust_unproven", json_true());
    }
    return code;
}

// What a start would be told. Takes body.
static enum cli_exit check_take(const struct cli *cli, json_t *body)
{
    json_t *evidence = NULL;
    enum cli_exit code = served_root_check(cli, body);

    add_consent(cli, body);
    if (code == CLI_EXIT_OK && cli_given(cli, CLI_OPTION_EVIDENCE)) {
        code = rollout_evidence_load(cli->values[CLI_OPTION_EVIDENCE], &evidence);
    }
    if (code == CLI_EXIT_OK) {
        code = check_all(cli, body, evidence);
    }
    if (code == CLI_EXIT_OK) {
        code = evidence_gate_check(json_object_get(body, "stages"), evidence, true);
    }
    json_decref(evidence);
    json_decref(body);
    return code;
}

// What a dry run does not know.
static void print_checked(const struct cli *cli, const json_t *stages)
{
    bool simulates = ladder_kind(json_array_get(stages, 0)) == POL_STAGE_SIMULATE;

    printf("\nthe gateway would start it; nothing was made%s\n",
           simulates && !cli_given(cli, CLI_OPTION_EVIDENCE)
               ? ". The simulate stage was not played: its devices, or --evidence, decide it"
               : "");
}

// The last line, below a plan (`planned`) that reads as if all were well.
static void print_refused(enum cli_exit code, bool planned)
{
    printf("%s%s", planned ? "\n" : "",
           code == CLI_EXIT_FAILED ? "it would start, and go back: "
                                   : "it would not start; nothing was made: ");
    base_terminal_text(stdout, base_str_of(cli_why()));
    putchar('\n');
}

// --dry-run: what a start would do and cost, and whether it would be refused: drawn up and signed
// as a start is, checked by the gateway as a start is, and thrown away.
static enum cli_exit try_start(const struct cli *cli)
{
    struct rollout_draft draft;
    struct plan plan = {0};
    json_t *body = NULL;
    enum cli_exit code = make_plan(cli, true, &plan);
    bool planned = code == CLI_EXIT_OK;

    if (code == CLI_EXIT_OK && !cli->json) {
        code = show_plan(cli, &plan);
    }
    if (code == CLI_EXIT_OK && !cli_given(cli, CLI_OPTION_KEY)) {
        code = cli_fail(CLI_EXIT_USAGE,
                        "--key FILE is missing: a start needs it, so its dry run does; walle "
                        "rollout plan %s shows this without keys",
                        cli->args[0]);
    }
    if (code == CLI_EXIT_OK) {
        code = check_evidence(cli);
        served_root_warning(cli);
    }
    if (code == CLI_EXIT_OK) {
        code = draw(cli, &draft, &body);
    }
    if (code == CLI_EXIT_OK && cli_given(cli, CLI_OPTION_DRAFT)) {
        json_decref(body); // others sign first
    } else if (code == CLI_EXIT_OK) {
        code = check_take(cli, body);
    }
    if (planned && cli->json) {
        show_json(&plan, json_boolean(code == CLI_EXIT_OK));
    } else if (code == CLI_EXIT_OK) {
        print_checked(cli, plan.stages);
    } else if (!cli->json) {
        print_refused(code, planned);
    }
    plan_done(&plan);
    return code;
}

// Has another rollout been made, completed or taken back since the draft was signed?
static bool is_outdated(const struct cli *cli, const struct rollout_draft *draft)
{
    struct rollout_draft now = *draft;
    return fetch_task(cli, &now) == CLI_EXIT_OK &&
           (now.release_counter != draft->release_counter || now.floor != draft->floor);
}

// Once a command, and after all that would refuse it here.
static enum cli_exit find_evidence(const struct cli *cli, const json_t *body, json_t **evidence)
{
    if (*evidence != NULL || cli_given(cli, CLI_OPTION_NO_START)) {
        return CLI_EXIT_OK;
    }
    return rollout_evidence_get(cli, json_object_get(body, "stages"),
                                json_object_get(body, "target"), evidence);
}

static enum cli_exit start(struct cli *cli, json_t **evidence)
{
    struct rollout_draft draft;
    json_t *body = NULL;
    bool made = false;

    for (uint32_t tries = 1;; tries++) {
        enum cli_exit code = draw(cli, &draft, &body);
        if (code != CLI_EXIT_OK) {
            return code;
        }
        if (tries == 1) {
            warn_of_present(cli, draft.task, &draft.manifest);
            followed_warning(cli, body);
            sample_warning(cli, body);
            served_root_warning(cli);
            ladder_warn(json_object_get(body, "stages"));
        }
        if (cli_given(cli, CLI_OPTION_DRAFT)) {
            code = write_draft(cli->values[CLI_OPTION_DRAFT], body);
            json_decref(body);
            return code;
        }
        add_consent(cli, body);
        code = served_root_check(cli, body);
        if (code == CLI_EXIT_OK) {
            code = find_evidence(cli, body, evidence);
        }
        if (code != CLI_EXIT_OK) {
            json_decref(body);
            return code;
        }
        code = create_take(cli, body, *evidence, &made);
        if (code != CLI_EXIT_REFUSED || made || tries == START_TRIES || !is_outdated(cli, &draft)) {
            return code;
        }
        fprintf(stderr, "another rollout of the task came in between: drawn up anew\n");
    }
}

enum cli_exit cli_rollout_start(struct cli *cli)
{
    json_t *evidence = NULL;

    if (rollout_begin_is_meant(cli)) {
        return rollout_begin(cli);
    }
    if (cli_given(cli, CLI_OPTION_DRY_RUN)) {
        return try_start(cli);
    }
    if (!cli_given(cli, CLI_OPTION_KEY)) {
        return cli_fail(CLI_EXIT_USAGE, "--key FILE is missing (walle key new makes one)");
    }
    enum cli_exit code = check_evidence(cli);
    if (code == CLI_EXIT_OK) {
        code = start(cli, &evidence);
    }
    json_decref(evidence);
    return code;
}
