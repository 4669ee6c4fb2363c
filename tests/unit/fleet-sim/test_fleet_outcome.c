// What a run came to, one reason at a time: each case differs in one thing from a run that passed.
#include "test_kit.h"

#include "report/thresholds.h"
#include "run/fleet_outcome.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct world {
    struct sim_options options;
    struct sim_versions versions;
    struct sim_watch_view view;
    struct sim_rollouts_seen rollouts;
    struct sim_ending ending;
    struct sim_run_result result;
    uint8_t version;
};

static struct world world;

// One more rollout that the run saw.
static struct sim_rollout_seen *seen(const char *version, const char *state)
{
    struct sim_rollout_seen *item = &world.rollouts.items[world.rollouts.count++];
    *item = (struct sim_rollout_seen){.id = 0x10 + world.rollouts.count,
                                      .created_s = 1000 + world.rollouts.count,
                                      .task = "shop/score"};
    sim_versions_bring(&world.versions, item->id);
    (void)snprintf(item->version, sizeof(item->version), "%s", version);
    (void)snprintf(item->state, sizeof(item->state), "%s", state);
    (void)snprintf(item->reason, sizeof(item->reason), "%s", "a person");
    return item;
}

// A gateway, devices that came online, a release under way that they took.
static void remote(void)
{
    static const struct wire_sha256 manifest = {.bytes = {7}};
    memset(&world, 0, sizeof(world));
    sim_versions_init(&world.versions);
    world.version = sim_versions_intern(&world.versions, &manifest);
    sim_versions_describe(&world.versions, world.version, BASE_STR("shop/score"),
                          BASE_STR("2.0.0"));
    world.options = (struct sim_options){.devices = 10, .host = "gateway.example", .port = 8443};
    world.view = (struct sim_watch_view){.known = true,
                                         .task = "shop/score",
                                         .version = "2.0.0",
                                         .state = "running",
                                         .stage = "gray",
                                         .reason = "a person"};
    world.ending =
        (struct sim_ending){.view = &world.view, .rollouts = &world.rollouts, .goal_reached = true};
    world.result.options = &world.options;
    world.result.versions = &world.versions;
    world.result.counters = (struct sim_counters){
        .requests = 20, .answers = 20, .arrived = 10, .checkins = 10, .activations = 10};
    world.result.counters.version[world.version].offered = 10;
    world.result.verdict.holds = true;
}

// Without a gateway: every device ran the version.
static void local(void)
{
    remote();
    world.options.local = true;
    world.options.max_failure_ppm = 100000; // one in ten
    world.ending.view = NULL;
    world.result.counters = (struct sim_counters){.arrived = 10};
    world.result.completed = 10;
    world.result.failed = 1;
}

static void judged(enum sim_outcome want, const char *cause)
{
    sim_outcome_judge(&world.result, &world.ending);
    print_message("%s: %s\n", sim_outcome_name(world.result.outcome), world.result.cause);
    assert_int_equal(world.result.outcome, want);
    assert_int_equal(world.result.interrupted, world.ending.interrupted);
    assert_non_null(strstr(world.result.cause, cause));
    assert_int_equal(world.result.cause[0] == '\0', cause[0] == '\0');
    sim_versions_done(&world.versions);
}

static void without_a_gateway(void **state)
{
    (void)state;
    remote();
    judged(SIM_OUTCOME_PASSED, "");
    remote();
    world.result.counters.answers = 0;
    judged(SIM_OUTCOME_NO_GATEWAY, "no gateway answered: gateway.example:8443: no answer");
    for (uint32_t rules = 0; rules < 2; rules++) { // in virtual time there is no address
        remote();
        (void)snprintf(world.options.virtual_dir, sizeof(world.options.virtual_dir), "folder");
        world.options.faults.rule_count = rules;
        world.result.counters.answers = 0;
        judged(SIM_OUTCOME_NO_GATEWAY, rules > 0 ? "not one of 20 requests was answered; the faults"
                                                 : "not one of 20 requests was answered");
    }
    remote();
    world.result.counters.answers = 0;
    world.ending.link_fault = "refused by 127.0.0.1:1";
    judged(SIM_OUTCOME_NO_GATEWAY, "no gateway answered: refused by 127.0.0.1:1");
    remote();
    world.result.counters.answers = 1; // one answer, and a connection that failed later
    world.ending.link_fault = "refused by 127.0.0.1:1";
    judged(SIM_OUTCOME_PASSED, "");
    remote(); // nothing was asked: nobody came online, which says nothing of the gateway
    world.result.counters.requests = 0;
    world.result.counters.answers = 0;
    world.result.counters.checkins = 0;
    judged(SIM_OUTCOME_NOBODY_ONLINE, "no device came online: 10 of 10 came up");
    remote();
    world.result.counters.answers = 0; // stopped before an answer could come
    world.ending.interrupted = true;
    judged(SIM_OUTCOME_INTERRUPTED, "");
    local();
    judged(SIM_OUTCOME_PASSED, "");
    local(); // nobody is offered anything, whatever it is about
    (void)snprintf(world.options.task, sizeof(world.options.task), "shop/score");
    judged(SIM_OUTCOME_PASSED, "");
}

static void with_connections_that_never_came_up(void **state)
{
    (void)state;
    remote();
    world.result.counters.links_never_up = 2;
    world.ending.link_fault = "127.0.0.1:1: Too many open files";
    judged(SIM_OUTCOME_FAILED, "2 connections to the gateway never came up, nor the devices behind "
                               "them: 127.0.0.1:1: Too many open files");
    remote();
    world.result.counters.links_never_up = 2;
    world.ending.interrupted = true;
    judged(SIM_OUTCOME_INTERRUPTED, "");
}

// A run before kept them in the folder of this one's reports.
static void credentials_of_before_are_named(void)
{
    char dir[] = "/tmp/walle-outcome-XXXXXX";
    char kept[64];
    char said[128];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(kept, sizeof(kept), "%s/credentials", dir);
    FILE *file = fopen(kept, "we");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    remote();
    world.result.counters.checkins = 0;
    world.result.counters.unauthorized = 3;
    (void)snprintf(world.options.out, sizeof(world.options.out), "%s", dir);
    (void)snprintf(said, sizeof(said), "stranger's: --credentials %s", kept);
    judged(SIM_OUTCOME_NOBODY_ONLINE, said);
    assert_int_equal(remove(kept), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void with_nobody_online(void **state)
{
    (void)state;
    remote();
    world.result.counters.checkins = 0;
    judged(SIM_OUTCOME_NOBODY_ONLINE, "no device came online: 10 of 10 came up");
    remote();
    world.result.counters.checkins = 0;
    world.result.counters.unauthorized = 3;
    judged(SIM_OUTCOME_NOBODY_ONLINE, "nobody's or a stranger's: --enroll-token FILE");
    credentials_of_before_are_named();
    remote();
    world.result.counters.checkins = 0;
    world.result.counters.unauthorized = 3;
    world.result.counters.enrol_refused = 3;
    judged(SIM_OUTCOME_NOBODY_ONLINE, "the gateway refused every enrolment");
    remote();
    world.result.counters.checkins = 0;
    world.result.counters.enrol_refused = 3;
    world.result.counters.enrolled_before = 3;
    (void)snprintf(world.options.virtual_dir, sizeof(world.options.virtual_dir), "gateway");
    judged(SIM_OUTCOME_NOBODY_ONLINE, "enrolled in that folder: another --seed");
    remote(); // some enrolled: the token is good
    world.result.counters.checkins = 0;
    world.result.counters.enrol_refused = 3;
    world.result.counters.enrolled = 1;
    judged(SIM_OUTCOME_NOBODY_ONLINE, "no device came online: 10 of 10 came up");
    remote();
    world.result.counters.checkins = 0;
    world.result.counters.enrol_refused = 3;
    world.result.counters.enrolled_before = 3;
    (void)snprintf(world.options.credentials, sizeof(world.options.credentials), "some.file");
    judged(SIM_OUTCOME_NOBODY_ONLINE, "some.file does not hold their credentials");
    local();
    world.result.counters.arrived = 0;
    judged(SIM_OUTCOME_NOBODY_ONLINE, "no device came online");
}

// Whatever the others came to: a part was never there.
static void with_a_part_that_is_enrolled_already(void **state)
{
    (void)state;
    for (uint32_t virtual = 0; virtual < 2; virtual ++) {
        remote();
        world.result.counters.enrolled = 6;
        world.result.counters.unenrolled = 4;
        world.result.counters.enrol_refused = 9;
        world.result.counters.enrolled_before = 9;
        world.result.counters.known_refused = 4;
        (void)snprintf(world.options.virtual_dir, sizeof(world.options.virtual_dir), "%s",
                       virtual != 0 ? "gateway" : "");
        judged(SIM_OUTCOME_REFUSED,
               virtual != 0 ? "4 of 10 devices never came online: they are enrolled already, in "
                              "that folder: another --seed"
                            : "by another run: --credentials FILE of that run, another --seed");
        assert_int_equal(sim_outcome_exit(SIM_OUTCOME_REFUSED), 8);
    }
    remote(); // clones: their id was enrolled in this run
    world.result.counters.unenrolled = 4;
    world.result.counters.enrolled_before = 9;
    judged(SIM_OUTCOME_PASSED, "");
    remote(); // an operator has reset them
    world.result.counters.known_refused = 4;
    judged(SIM_OUTCOME_PASSED, "");
    remote(); // what broke did so, whoever was missing
    world.result.counters.unenrolled = 4;
    world.result.counters.known_refused = 4;
    world.result.verdict.holds = false;
    judged(SIM_OUTCOME_FAILED, "");
    remote();
    world.result.counters.unenrolled = 4;
    world.result.counters.known_refused = 4;
    (void)seen("2.0.0", "rolled_back");
    judged(SIM_OUTCOME_FAILED, "rolled back: a person");
}

static void with_a_release_that_reaches_nobody(void **state)
{
    (void)state;
    remote();
    world.result.counters.version[world.version].offered = 0;
    judged(SIM_OUTCOME_UNREACHED, "reached any of the 10 devices that came online: the rollout of "
                                  "shop/score 2.0.0 is running, at gray");
    remote(); // what is offered under the number of no version is none
    world.result.counters.version[world.version].offered = 0;
    world.result.counters.version[SIM_VERSION_NONE].offered = 5;
    judged(SIM_OUTCOME_UNREACHED, "no release reached any");
    remote(); // the last number counts
    world.result.counters.version[world.version].offered = 0;
    world.result.counters.version[SIM_VERSIONS_MAX - 1].offered = 5;
    judged(SIM_OUTCOME_PASSED, "");
    remote(); // it is about no release: nothing was there to be judged
    world.result.counters.version[world.version].offered = 0;
    world.view.known = false;
    judged(SIM_OUTCOME_NO_RELEASE, "the gateway released nothing while the run lasted; walle");
    remote();
    world.result.counters.version[world.version].offered = 0;
    (void)snprintf(world.view.state, sizeof(world.view.state), "rolled_back");
    judged(SIM_OUTCOME_NO_RELEASE, "(the last rollout, of shop/score 2.0.0, is rolled_back)");
    remote(); // what failed nonetheless goes before
    world.result.counters.version[world.version].offered = 0;
    world.ending.view = NULL;
    world.result.counters.business_failed = 1;
    judged(SIM_OUTCOME_FAILED, "business requests was served");
    remote();
    world.result.counters.version[world.version].offered = 0;
    world.ending.view = NULL;
    (void)snprintf(world.options.task, sizeof(world.options.task), "shop/score");
    judged(SIM_OUTCOME_UNREACHED, "no release of shop/score reached any of the 10 devices that "
                                  "came online: no rollout of this gateway is known here");
    remote(); // the gateway offers a device no more than it has room for
    world.result.counters.version[world.version].offered = 0;
    world.result.counters.no_room = 9;
    world.options.tasks = 2;
    judged(SIM_OUTCOME_UNREACHED, "came online: 9 hold 2 tasks and have no room for it (--tasks); "
                                  "the rollout of shop/score 2.0.0 is running, at gray");
}

// A run on business: whether the service behind the proxy answered anybody.
static void with_business(void **state)
{
    (void)state;
    remote();
    world.result.counters.business = 7;
    world.result.counters.business_failed = 7;
    judged(SIM_OUTCOME_FAILED, "none of 7 business requests was served");
    remote();
    world.result.counters.business = 7;
    world.result.counters.business_failed = 6;
    world.result.counters.business_served = 1;
    judged(SIM_OUTCOME_PASSED, "");
    remote(); // all were under way at the end
    world.result.counters.business = 7;
    judged(SIM_OUTCOME_PASSED, "");
    remote(); // who was not reached is told of that
    world.result.counters.business = 7;
    world.result.counters.business_failed = 7;
    world.result.counters.version[world.version].offered = 0;
    judged(SIM_OUTCOME_UNREACHED, "no release");
}

// Each way in which a command line names a release.
static void about_a_release_that_is_named(void **state)
{
    (void)state;
    for (uint32_t way = 0; way < 6; way++) {
        remote();
        world.ending.view = NULL;
        world.result.counters.version[world.version].offered = 0;
        world.options.task[0] = way == 0 ? 'x' : '\0';
        world.options.version[0] = way == 1 ? 'x' : '\0';
        world.options.coverage_ppm = way == 2;
        world.options.until_rollout = way == 3;
        world.options.rollout = way == 4;
        world.options.bad_version_count = way == 5;
        judged(SIM_OUTCOME_UNREACHED, "no rollout of this gateway is known here");
    }
}

// A release came to devices, and it is not the one that the command line names.
static void about_another_than_the_one_named(void **state)
{
    (void)state;
    for (uint32_t way = 0; way < 4; way++) { // there, and nobody was offered it
        remote();
        uint64_t id = seen("3.0.0", way % 2 == 0 ? "running" : "completed")->id;
        world.options.rollout = way < 2 ? id : 0;
        world.options.until_rollout = way < 2 ? 0 : id;
        judged(SIM_OUTCOME_UNREACHED, "rollout 0000000000000011 reached none of the 10 devices");
    }
    remote();
    world.options.rollout = seen("2.0.0", "running")->id;
    judged(SIM_OUTCOME_PASSED, "");
    remote(); // the gateway said nothing of it
    world.options.rollout = 1;
    judged(SIM_OUTCOME_UNREACHED, "rollout 0000000000000001 reached none of the 10 devices");
    remote();
    (void)snprintf(world.options.version, sizeof(world.options.version), "9.9.9");
    judged(SIM_OUTCOME_UNREACHED, "version 9.9.9 reached none of the 10 devices");
    remote();
    (void)snprintf(world.options.version, sizeof(world.options.version), "2.0.0");
    judged(SIM_OUTCOME_PASSED, "");
}

static void about_a_rollout_that_is_not_there(void **state)
{
    (void)state;
    for (uint32_t way = 0; way < 3; way++) {
        remote();
        world.view.known = false;
        world.view.missing = true;
        world.options.rollout = way == 0 ? 1 : 0;
        world.options.until_rollout = way == 0 ? 0 : 1;
        world.ending.goal_reached = false;
        world.result.counters.checkins = way == 2 ? 0 : 10; // it ended before the first came
        judged(SIM_OUTCOME_UNREACHED, "no such rollout: the gateway has no 0000000000000001");
    }
    remote(); // what broke tells more
    world.view.missing = true;
    world.options.rollout = 1;
    world.result.verdict.holds = false;
    sim_outcome_judge(&world.result, &world.ending);
    assert_int_equal(world.result.outcome, SIM_OUTCOME_FAILED);
    sim_versions_done(&world.versions);
}

static void with_devices_that_refuse(void **state)
{
    (void)state;
    remote();
    world.result.counters.activations = 0;
    world.result.counters.refused_offers = 3;
    world.result.counters.refused_metadata = 2;
    judged(SIM_OUTCOME_UNREACHED, "no device took a release: they refused 3 offers and 2 roots");
    remote();
    world.result.counters.activations = 0;
    world.result.counters.refused_metadata = 2;
    judged(SIM_OUTCOME_UNREACHED, "refused 0 offers and 2 roots");
    remote(); // some took it
    world.result.counters.refused_offers = 3;
    judged(SIM_OUTCOME_PASSED, "");
}

static void with_a_goal(void **state)
{
    (void)state;
    remote();
    world.options.coverage_ppm = 1;
    judged(SIM_OUTCOME_PASSED, "");
    remote();
    world.options.coverage_ppm = 1;
    world.ending.goal_reached = false;
    judged(SIM_OUTCOME_FAILED, "--until-coverage was not reached");
    remote();
    world.options.until_rollout = seen("2.0.0", "running")->id;
    world.ending.goal_reached = false;
    judged(SIM_OUTCOME_FAILED, "--until-rollout is not over");
    remote(); // none was set
    world.ending.goal_reached = false;
    judged(SIM_OUTCOME_PASSED, "");
}

static void taken_back(void **state)
{
    (void)state;
    remote();
    (void)seen("2.0.0", "rolled_back");
    judged(SIM_OUTCOME_FAILED, "the release of shop/score 2.0.0 was rolled back: a person;");
    assert_int_equal(world.result.decided, world.version);
    assert_true(world.result.rollouts[0].wrong);
    remote(); // its end is not there yet, and is certain
    (void)seen("2.0.0", "rolling_back");
    judged(SIM_OUTCOME_FAILED, "the release of shop/score 2.0.0 is being rolled back: a person;");
    remote();
    seen("2.0.0", "rolled_back")->reason[0] = '\0';
    judged(SIM_OUTCOME_FAILED, "2.0.0 was rolled back; one that");
    remote(); // as it was said to be
    (void)seen("2.0.0", "rolled_back");
    world.versions.items[world.version].bad = true;
    judged(SIM_OUTCOME_PASSED, "");
    assert_true(world.result.rollouts[0].meant);
    remote(); // of other devices than these
    (void)seen("3.0.0", "rolled_back");
    judged(SIM_OUTCOME_PASSED, "");
    assert_int_equal(world.result.rollout_count, 1); // it is listed all the same
    remote();                                        // before the run
    seen("2.0.0", "rolled_back")->old = true;
    judged(SIM_OUTCOME_PASSED, "");
    assert_int_equal(world.result.rollout_count, 0);
    remote(); // a second one of a version that these devices had: it offered them nothing
    (void)seen("2.0.0", "completed");
    (void)seen("2.0.0", "rolled_back");
    world.versions.brought_count = 1;
    judged(SIM_OUTCOME_PASSED, "");
    assert_false(world.result.rollouts[1].wrong);
    assert_false(world.result.rollouts[1].meant);
    remote(); // more rollouts than there is place for: the version decides
    (void)seen("2.0.0", "rolled_back");
    world.versions.brought_count = SIM_GRANTS_MAX + 1;
    world.versions.brought[0] = 0;
    judged(SIM_OUTCOME_FAILED, "the release of shop/score 2.0.0 was rolled back");
    remote(); // of another task than the one followed
    (void)snprintf(world.options.task, sizeof(world.options.task), "shop/other");
    (void)seen("2.0.0", "rolled_back");
    judged(SIM_OUTCOME_PASSED, "");
    assert_int_equal(world.result.rollout_count, 0);
}

// A version is named bad, by label or by hash: a run in which it never came shows nothing of it.
static void with_a_bad_version_that_never_came(void **state)
{
    static const char *const names[] = {"9.9.9", "2.0.0", "0700", "*", "2.0"};
    (void)state;
    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        bool came = i > 0 && i < 4;
        remote();
        world.options.bad_version_count = 2; // one that came, and this one
        (void)snprintf(world.options.bad_versions[0], SIM_TEXT_MAX, "2.0.0");
        (void)snprintf(world.options.bad_versions[1], SIM_TEXT_MAX, "%s", names[i]);
        if (came) {
            judged(SIM_OUTCOME_PASSED, "");
            continue;
        }
        judged(SIM_OUTCOME_FAILED, "never came to these devices, so it did not go back");
        assert_non_null(strstr(world.result.cause, names[i]));
        assert_non_null(strstr(world.result.cause, "those that came: shop/score 2.0.0"));
    }
    remote(); // known, and offered to nobody; another one was
    world.options.bad_version_count = 1;
    (void)snprintf(world.options.bad_versions[0], SIM_TEXT_MAX, "2.0.0");
    world.result.counters.version[world.version].offered = 0;
    world.result.counters.version[SIM_VERSIONS_MAX - 1].offered = 5;
    judged(SIM_OUTCOME_FAILED, "--bad-version 2.0.0: never came to these devices");
    remote(); // its label is not known here, as it never ran; the gateway says which it is
    static const struct wire_sha256 manifest = {.bytes = {8}};
    uint8_t next = sim_versions_intern(&world.versions, &manifest);
    sim_versions_describe(&world.versions, next, BASE_STR("shop/score"), BASE_STR(""));
    world.result.counters.version[next].offered = 10;
    world.options.bad_version_count = 1;
    (void)snprintf(world.options.bad_versions[0], SIM_TEXT_MAX, "3.0.0");
    wire_sha256_hex(&manifest, seen("3.0.0", "rolled_back")->manifest);
    judged(SIM_OUTCOME_PASSED, "");
    remote(); // cut short, it might yet have come
    world.options.bad_version_count = 1;
    (void)snprintf(world.options.bad_versions[0], SIM_TEXT_MAX, "9.9.9");
    world.ending.interrupted = true;
    judged(SIM_OUTCOME_INTERRUPTED, "");
}

// A release that went back is the outcome, whatever came after it, unless it was to go back.
static void taken_back_and_then_another(void **state)
{
    static const struct wire_sha256 manifest = {.bytes = {8}};
    (void)state;
    for (uint32_t bad = 0; bad < 2; bad++) {
        remote();
        uint8_t next = sim_versions_intern(&world.versions, &manifest);
        sim_versions_describe(&world.versions, next, BASE_STR("shop/score"), BASE_STR("3.0.0"));
        world.result.counters.version[next].offered = 10;
        (void)seen("3.0.0", "completed"); // the newest comes first from the gateway
        (void)seen("2.0.0", "rolled_back");
        world.rollouts.items[1].created_s = 1;
        world.versions.items[world.version].bad = bad != 0;
        if (bad != 0) {
            judged(SIM_OUTCOME_PASSED, "");
        } else {
            judged(SIM_OUTCOME_FAILED, "the release of shop/score 2.0.0 was rolled back");
        }
        assert_int_equal(world.result.decided, bad != 0 ? next : world.version);
        assert_int_equal(world.result.rollout_count, 2);
        assert_string_equal(world.result.rollouts[0].seen.version, "2.0.0");
        assert_string_equal(world.result.rollouts[1].seen.version, "3.0.0");
    }
}

// What the gateway's pages make of it: what was over before the first one is old until it changes.
static void rollouts_that_a_run_saw(void **state)
{
    static const char first[] =
        "{\"items\":[{\"id\":\"0000000000000002\",\"created_s\":20,\"state\":\"running\","
        "\"stages\":"
        "[{\"name\":\"dry\",\"kind\":\"simulate\",\"percent\":100.0,\"rule\":\"threshold\","
        "\"max_failure\":0.01,\"min_sample\":200,\"min_dwell_s\":0.0},{\"name\":\"gray-1\","
        "\"kind\":"
        "\"gray\",\"percent\":0.5,\"rule\":\"logrank\",\"max_failure\":0.025,\"min_sample\":10,"
        "\"min_dwell_s\":60.5}]},"
        "{\"id\":\"0000000000000001\",\"created_s\":10,\"state\":\"completed\"}]}";
    static const char second[] =
        "{\"items\":[{\"id\":\"0000000000000003\",\"created_s\":30,\"state\":\"rolled_back\"},"
        "{\"id\":\"0000000000000005\",\"created_s\":20,\"state\":\"rolled_back\"},"
        "{\"id\":\"0000000000000002\",\"created_s\":20,\"state\":\"guarding\"},"
        "{\"id\":\"0000000000000001\",\"created_s\":10,\"state\":\"rolling_back\"},"
        "{\"id\":\"0000000000000004\",\"created_s\":5,\"state\":\"completed\"},{\"id\":7}]}";
    struct sim_rollouts_seen *rollouts = &world.rollouts;
    (void)state;
    memset(rollouts, 0, sizeof(*rollouts));
    sim_rollouts_take(rollouts, "[", 1);
    assert_false(rollouts->begun);
    sim_rollouts_take(rollouts, first, sizeof(first) - 1);
    assert_int_equal(rollouts->count, 2);
    assert_string_equal(rollouts->items[0].stages,
                        "dry: at most 1 % may fail, of 200 or more, 0 s or longer; gray-1 0.5 %: "
                        "at most 2.5 % may fail, of 10 or more, 60.5 s or longer, by logrank");
    assert_string_equal(rollouts->items[1].stages, "");
    assert_false(rollouts->items[0].old);
    assert_true(rollouts->items[1].old);
    sim_rollouts_take(rollouts, second, sizeof(second) - 1);
    assert_int_equal(rollouts->count, 5);
    assert_false(rollouts->items[0].old);
    assert_string_equal(rollouts->items[0].state, "guarding");
    assert_false(rollouts->items[1].old); // it goes back now
    assert_false(rollouts->items[2].old); // it came and went between two looks
    assert_false(rollouts->items[3].old); // it did in the second of the newest that was known
    assert_true(rollouts->items[4].old);  // of a page that was not looked at first
}

// An invariant that broke; of a run that was cut short, one that time would not have mended.
static void with_a_broken_invariant(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        for (uint32_t interrupted = 0; interrupted < 2; interrupted++) {
            remote();
            world.result.verdict.holds = false;
            world.result.verdict.oracle[i].checked = true;
            world.ending.interrupted = interrupted != 0;
            judged(interrupted != 0 && i == SIM_ORACLE_BACK ? SIM_OUTCOME_INTERRUPTED
                                                            : SIM_OUTCOME_FAILED,
                   "");
        }
    }
    remote();
    world.result.verdict.oracle[0] = (struct sim_oracle_result){.checked = true, .holds = true};
    world.ending.interrupted = true;
    judged(SIM_OUTCOME_INTERRUPTED, "");
}

static void without_a_gateway_by_figures(void **state)
{
    (void)state;
    local();
    world.result.failed = 2;
    world.result.focus = world.version;
    world.result.failed_as[WIRE_OUTCOME_FAIL_TIMEOUT] = 1;
    world.result.failed_as[WIRE_OUTCOME_FAIL_MEMORY] = 2;
    sim_failures_add(&world.result.failures, world.version, WIRE_OUTCOME_FAIL_MEMORY,
                     BASE_STR("too much of it"));
    judged(SIM_OUTCOME_FAILED, "2 of 10 devices failed, 20.00 %: at most 10.00 % may");
    assert_non_null(strstr(world.result.cause, "most often, on 2, "));
    assert_non_null(strstr(world.result.cause, ": too much of it; next"));
    local(); // nobody failed, as nobody ran it
    world.result.completed = 0;
    world.result.failed = 0;
    judged(SIM_OUTCOME_FAILED, "no device ran the version");
    local();
    world.options.max_failure_ppm = 99999;
    judged(SIM_OUTCOME_FAILED, "1 of 10 devices failed");
}

// Ten devices, of which `ran` ran the version; the others refused it, saying this.
static void refused(uint64_t ran, enum wire_outcome_kind kind, const char *words)
{
    local();
    world.result.whole = true;
    world.result.failed = 0;
    world.result.completed = ran;
    world.result.refused_as[kind] = 10 - ran;
    sim_failures_add(&world.result.failures, SIM_VERSION_NONE, kind, base_str_of(words));
    (void)snprintf(world.result.ended, sizeof(world.result.ended), "%s", "every device");
}

static void without_a_gateway_by_refusals(void **state)
{
    (void)state;
    refused(8, WIRE_OUTCOME_FAIL_CLOCK, "it ran out");
    judged(SIM_OUTCOME_FAILED, "2 of 10 devices did not run the version, 20.00 %: at most 10.00 % "
                               "may (--max-failure); most often, on 2, they refused the offer: "
                               "fail_clock: it ran out");
    assert_string_equal(world.result.ended, "8 of 10 devices went through the version");
    refused(9, WIRE_OUTCOME_FAIL_CLOCK, "it ran out");
    judged(SIM_OUTCOME_PASSED, "");
    assert_string_equal(world.result.ended,
                        "9 of 10 devices went through the version; most often, on 1, the others "
                        "refused the offer: fail_clock: it ran out");
    world.result.failed = 1; // with the one that refused these are too many
    world.result.failed_as[WIRE_OUTCOME_FAIL_MEMORY] = 1;
    judged(SIM_OUTCOME_FAILED, "2 of 10 devices failed or did not run the version, 20.00 %");
    assert_non_null(strstr(world.result.cause, "they refused the offer: fail_clock"));
    assert_non_null(strstr(world.result.cause, "most often, on 1, fail_memory; next"));
    refused(4, WIRE_OUTCOME_NOT_APPLICABLE, "no files"); // it is not for them
    judged(SIM_OUTCOME_PASSED, "");
    assert_non_null(strstr(world.result.ended, "refused the offer: not_applicable: no files"));
    refused(0, WIRE_OUTCOME_NOT_APPLICABLE, "no files");
    judged(SIM_OUTCOME_FAILED, "no device ran the version; most often, on 10, they refused");
    refused(8, WIRE_OUTCOME_FAIL_CLOCK, "");
    memset(world.result.refused_as, 0, sizeof(world.result.refused_as)); // and nobody said why
    judged(SIM_OUTCOME_FAILED, "2 of 10 devices did not run the version, 20.00 %");
}

static void threshold(const char *text)
{
    struct sim_threshold *place = &world.options.thresholds[world.options.threshold_count++];
    assert_int_equal(sim_threshold_parse(base_str_of(text), place, NULL), BASE_OK);
}

// A threshold decides where nothing else does.
static void with_thresholds(void **state)
{
    (void)state;
    remote();
    world.result.counters.wakes = 10;
    threshold("arrived>=10");
    judged(SIM_OUTCOME_PASSED, "");
    remote();
    world.result.counters.wakes = 10;
    threshold("arrived>=10");
    threshold("arrived>=11");
    threshold("runs>=1");
    judged(SIM_OUTCOME_THRESHOLD, "2 of 3 thresholds do not hold; arrived>=11: 10, does not hold; "
                                  "runs>=1: 0, does not hold");
    remote(); // words that are many are cut
    for (uint32_t i = 0; i < SIM_THRESHOLDS_MAX; i++) {
        threshold("offer_to_run_p99                                                       < 1s");
    }
    judged(SIM_OUTCOME_THRESHOLD, "32 of 32 thresholds do not hold; offer_to_run_p99");
    remote();
    threshold("arrived>=11");
    world.result.verdict.holds = false;
    judged(SIM_OUTCOME_FAILED, "");
    remote();
    threshold("arrived>=11");
    world.ending.interrupted = true;
    judged(SIM_OUTCOME_INTERRUPTED, "");
    remote(); // nothing was there to be judged, whatever was measured
    threshold("arrived>=1");
    world.result.counters.version[world.version].offered = 0;
    world.view.known = false;
    judged(SIM_OUTCOME_NO_RELEASE, "the gateway released nothing");
    remote();
    threshold("arrived>=11");
    world.options.coverage_ppm = 1;
    world.ending.goal_reached = false;
    judged(SIM_OUTCOME_FAILED, "the coverage of --until-coverage was not reached");
    local();
    threshold("failed_share<5%");
    judged(SIM_OUTCOME_THRESHOLD, "1 of 1 thresholds do not hold; failed_share<5%: 10 %, does not");
}

// The gate of a rollout that reached these devices counts others alone.
static void by_a_gate_that_counts_nobody(void **state)
{
    (void)state;
    static const char page[] =
        "{\"items\": [{\"id\": \"00000000000000a1\", \"counts\": {\"offered\": 0, "
        "\"unproven_completed\": 3}}, {\"id\": \"00000000000000a2\", \"trust_unproven\": true, "
        "\"counts\": {\"offered\": 0, \"unproven_completed\": 3}}, {\"id\": "
        "\"00000000000000a3\", \"counts\": {\"offered\": 1, \"unproven_completed\": 3}}, {\"id\": "
        "\"00000000000000a4\", \"counts\": {\"offered\": 0, \"unproven_completed\": 0}}]}";
    remote();
    sim_rollouts_take(&world.rollouts, page, sizeof(page) - 1);
    assert_int_equal(world.rollouts.count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(world.rollouts.items[i].uncounted, i == 0);
    }
    remote();
    seen("2.0.0", "running")->uncounted = true;
    judged(SIM_OUTCOME_UNCOUNTED, "of shop/score 2.0.0 counts devices that show who they are, and "
                                  "these are strangers to it: --enroll-token FILE");
    remote(); // another's: these devices were offered none of it
    seen("3.0.0", "running")->uncounted = true;
    judged(SIM_OUTCOME_PASSED, "");
    remote();
    seen("2.0.0", "running")->uncounted = true;
    world.options.coverage_ppm = 1;
    world.ending.goal_reached = false;
    judged(SIM_OUTCOME_FAILED, "the coverage of --until-coverage was not reached");
    remote();
    seen("2.0.0", "running")->uncounted = true;
    threshold("arrived>=11");
    judged(SIM_OUTCOME_UNCOUNTED, "strangers");
}

// Offers alone are no release, and what the core could not write down it did not do.
static void where_nothing_came_about(void **state)
{
    (void)state;
    for (uint64_t crashes = 0; crashes < 2; crashes++) { // who crashed may have come so far
        remote();
        world.result.counters.activations = 0;
        world.result.counters.crashes = crashes;
        judged(crashes > 0 ? SIM_OUTCOME_PASSED : SIM_OUTCOME_UNREACHED,
               crashes > 0 ? "" : "were offered a release, and none came so far as to activate it");
    }
    remote();
    world.result.unwritten = 3;
    judged(SIM_OUTCOME_NO_ROOM, "had no room for 3 of its answers: /dev/shm is full");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_gateway),
        cmocka_unit_test(with_connections_that_never_came_up),
        cmocka_unit_test(with_nobody_online),
        cmocka_unit_test(with_a_part_that_is_enrolled_already),
        cmocka_unit_test(with_a_release_that_reaches_nobody),
        cmocka_unit_test(with_business),
        cmocka_unit_test(about_a_release_that_is_named),
        cmocka_unit_test(about_another_than_the_one_named),
        cmocka_unit_test(about_a_rollout_that_is_not_there),
        cmocka_unit_test(with_devices_that_refuse),
        cmocka_unit_test(with_a_goal),
        cmocka_unit_test(taken_back),
        cmocka_unit_test(with_a_bad_version_that_never_came),
        cmocka_unit_test(taken_back_and_then_another),
        cmocka_unit_test(rollouts_that_a_run_saw),
        cmocka_unit_test(with_a_broken_invariant),
        cmocka_unit_test(without_a_gateway_by_figures),
        cmocka_unit_test(without_a_gateway_by_refusals),
        cmocka_unit_test(with_thresholds),
        cmocka_unit_test(by_a_gate_that_counts_nobody),
        cmocka_unit_test(where_nothing_came_about),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
