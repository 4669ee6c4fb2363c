// gate_sim SCENARIO FIRST RUNS DEVICES [ours]: plays rollouts FIRST.. of a scenario under
// every rule. Driven by rollout_gate.py; prints one line for each rule and rollout:
//     RULE RUN SETTING END SECONDS EXPOSED HARMED QUARANTINED STAGE
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
    printf("%s %llu %u %s %.0f %llu %llu %u %u\n", rule, (unsigned long long)run, setting,
           end_names[out->end], out->at_s, (unsigned long long)out->exposed,
           (unsigned long long)out->harmed, out->quarantined, out->stage);
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

static void play(struct gate_world *world, struct gate_fleet *fleet,
                 const struct gate_ours *settings, uint64_t run, bool rivals)
{
    static struct gate_outcome hawkbit[GATE_HAWKBIT_SETTINGS];
    static struct gate_outcome aws[GATE_AWS_SETTINGS];
    static struct gate_outcome argo[GATE_ARGO_SETTINGS];
    struct gate_outcome ours;
    gate_play_ours(world, fleet, settings, &ours);
    print_outcome("ours", run, 0, &ours);
    if (rivals) {
        gate_play_hawkbit(world, fleet, hawkbit);
        print_grid("hawkbit", run, hawkbit, GATE_HAWKBIT_SETTINGS);
        gate_play_aws(world, fleet, aws);
        print_grid("aws", run, aws, GATE_AWS_SETTINGS);
        gate_play_argo(world, fleet, argo);
        print_grid("argo", run, argo, GATE_ARGO_SETTINGS);
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "names") == 0) {
        print_names();
        return 0;
    }
    const struct gate_scenario *found = argc >= 5 ? gate_scenario_find(argv[1]) : NULL;
    if (found == NULL) {
        (void)fprintf(stderr,
                      "usage: gate_sim names | SCENARIO FIRST RUNS DEVICES [all|ours [BASE]]\n");
        return 64;
    }
    struct gate_scenario scenario = *found;
    if (argc > 6) {
        scenario.base_low = strtod(argv[6], NULL);
        scenario.base_high = scenario.base_low;
    }
    bool rivals = argc < 6 || strcmp(argv[5], "ours") != 0;
    uint64_t first = (uint64_t)strtod(argv[2], NULL);
    uint64_t runs = (uint64_t)strtod(argv[3], NULL);
    uint32_t devices = (uint32_t)strtod(argv[4], NULL);
    struct gate_ours settings = gate_ours_standard();
    struct gate_fleet fleet = {.count = 0};
    struct gate_world world = {.fleet = NULL};
    bool ready = gate_fleet_init(&fleet, devices) && gate_world_init(&world, devices);
    for (uint64_t run = first; ready && run < first + runs; run++) {
        gate_fleet_draw(&fleet, &scenario, run + 1);
        play(&world, &fleet, &settings, run, rivals);
    }
    gate_world_done(&world);
    gate_fleet_done(&fleet);
    return ready ? 0 : 71;
}
