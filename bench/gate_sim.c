// gate_sim SCENARIO FIRST RUNS DEVICES [all|ours [BASE]]: plays rollouts FIRST.. of a scenario
// under every rule, or ours alone. Driven by rollout_gate.py; prints one line for each rule and
// rollout:
//     RULE RUN SETTING END SECONDS EXPOSED HARMED QUARANTINED STAGE FOUND
// `logrank` and `threshold` are rules of ours.
// Settings of a rival whose outcome equals that of the setting before are left out (a reader fills
// them in), which keeps the output small.
#include "gate_play.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const end_names[] = {"completed", "stopped", "held"};

static void print_outcome(const char *rule, uint64_t run, uint32_t setting,
                          const struct gate_outcome *out)
{
    printf("%s %llu %u %s %.0f %llu %llu %u %u %u\n", rule, (unsigned long long)run, setting,
           end_names[out->end], out->at_s, (unsigned long long)out->exposed,
           (unsigned long long)out->harmed, out->quarantined, out->stage, (unsigned)out->found);
}

static void print_grid(const char *rule, uint64_t run, const struct gate_outcome *out,
                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        bool same = i > 0 && out[i].end == out[i - 1].end && out[i].at_s == out[i - 1].at_s &&
                    out[i].exposed == out[i - 1].exposed;
        if (!same) {
            print_outcome(rule, run, i, &out[i]);
        }
    }
}

static void print_names(void)
{
    char name[GATE_SETTING_NAME_MAX];
    for (uint32_t i = 0; i < GATE_HAWKBIT_SETTINGS; i++) {
        gate_hawkbit_name(i, name);
        printf("name hawkbit %u %s\n", i, name);
    }
    for (uint32_t i = 0; i < GATE_AWS_SETTINGS; i++) {
        gate_aws_name(i, name);
        printf("name aws %u %s\n", i, name);
    }
    for (uint32_t i = 0; i < GATE_ARGO_SETTINGS; i++) {
        gate_argo_name(i, name);
        printf("name argo %u %s\n", i, name);
    }
    for (uint32_t i = 0; gate_scenario_at(i) != NULL; i++) {
        printf("scenario %s\n", gate_scenario_at(i)->name);
    }
}

struct players {
    struct gate_fleet fleet;
    struct gate_world world;
    struct gate_ours_play *ours;
    uint32_t control; // for each updated device; 0: as usual
};

static bool play_ours(struct players *players, uint64_t run)
{
    static const enum pol_gate_rule rules[] = {POL_GATE_LOGRANK, POL_GATE_THRESHOLD};
    for (uint32_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct gate_ours settings = gate_ours_standard(rules[i]);
        struct gate_outcome out;
        bool other = players->control > 0 && settings.control_ratio > 0;
        settings.control_ratio = other ? players->control : settings.control_ratio;
        if (!gate_play_ours(players->ours, &players->world, &players->fleet, &settings, &out)) {
            return false;
        }
        print_outcome(pol_gate_rule_name(rules[i]), run, 0, &out);
    }
    return true;
}

static void play_rivals(struct players *players, uint64_t run)
{
    static struct gate_outcome hawkbit[GATE_HAWKBIT_SETTINGS];
    static struct gate_outcome aws[GATE_AWS_SETTINGS];
    static struct gate_outcome argo[GATE_ARGO_SETTINGS];
    gate_play_hawkbit(&players->world, &players->fleet, hawkbit);
    print_grid("hawkbit", run, hawkbit, GATE_HAWKBIT_SETTINGS);
    gate_play_aws(&players->world, &players->fleet, aws);
    print_grid("aws", run, aws, GATE_AWS_SETTINGS);
    gate_play_argo(&players->world, &players->fleet, argo);
    print_grid("argo", run, argo, GATE_ARGO_SETTINGS);
}

static bool make_players(struct players *players, uint32_t devices)
{
    *players = (struct players){.ours = gate_ours_new(devices)};
    return gate_fleet_init(&players->fleet, devices) && gate_world_init(&players->world, devices) &&
           players->ours != NULL;
}

static void free_players(struct players *players)
{
    gate_world_done(&players->world);
    gate_fleet_done(&players->fleet);
    gate_ours_free(players->ours);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "names") == 0) {
        print_names();
        return 0;
    }
    const struct gate_scenario *found = argc >= 5 ? gate_scenario_find(argv[1]) : NULL;
    if (found == NULL) {
        (void)fprintf(stderr, "usage: gate_sim names | SCENARIO FIRST RUNS DEVICES [all|ours [BASE "
                              "[CONTROL]]]\n");
        return 64;
    }
    struct gate_scenario scenario = *found;
    if (argc > 6 && strtod(argv[6], NULL) > 0) {
        scenario.base_low = strtod(argv[6], NULL);
        scenario.base_high = scenario.base_low;
    }
    bool rivals = argc < 6 || strcmp(argv[5], "ours") != 0;
    uint64_t first = (uint64_t)strtod(argv[2], NULL);
    uint64_t runs = (uint64_t)strtod(argv[3], NULL);
    uint32_t devices = (uint32_t)strtod(argv[4], NULL);
    struct players players;
    bool ready = make_players(&players, devices);
    players.control = argc > 7 ? (uint32_t)strtod(argv[7], NULL) : 0;
    for (uint64_t run = first; ready && run < first + runs; run++) {
        gate_fleet_draw(&players.fleet, &scenario, run + 1);
        ready = play_ours(&players, run);
        if (ready && rivals) {
            play_rivals(&players, run);
        }
    }
    free_players(&players);
    return ready ? 0 : 71;
}
