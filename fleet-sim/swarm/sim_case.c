// A case as words, as a line of a shell, and as a process. Called by swarm_play.c and shrink_main.c
// on the main thread. The line and the process are made of the same words, so that what is printed
// is what was played.
#include "swarm/sim_case.h"

#include "base/check.h"
#include "model/ledger.h"
#include "model/repro_line.h"
#include "model/sim_exit.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

struct speller {
    struct sim_case_words *out;
    uint32_t count;
    uint32_t numbers;
};

static void word(struct speller *speller, const char *text)
{
    base_check(speller->count + 1 < SIM_CASE_WORDS_MAX);
    speller->out->words[speller->count++] = text;
}

static void number(struct speller *speller, const char *option, uint64_t value)
{
    char *text = speller->out->numbers[speller->numbers++];
    (void)snprintf(text, sizeof(speller->out->numbers[0]), "%llu", (unsigned long long)value);
    word(speller, option);
    word(speller, text);
}

void sim_case_spell(const struct sim_case *at, const char *folder, struct sim_case_words *out)
{
    struct speller speller = {.out = out};
    word(&speller, "walle-fleet-sim");
    word(&speller, "run");
    for (uint32_t i = 0; i < at->fixed_count; i++) {
        word(&speller, at->fixed[i]);
    }
    number(&speller, "--devices", at->devices);
    if (at->first_device > 0) {
        number(&speller, "--first-device", at->first_device);
    }
    number(&speller, "--seed", at->seed);
    number(&speller, "--duration", at->duration_s);
    if (at->until_s > 0) {
        number(&speller, "--faults-until", at->until_s);
    }
    for (uint32_t i = 0; i < at->fault_count; i++) {
        word(&speller, "--fault");
        word(&speller, at->faults[i]);
    }
    if (folder != NULL) {
        word(&speller, "--no-live");
        word(&speller, "--out");
        word(&speller, folder);
    }
    out->words[speller.count] = NULL;
}

void sim_case_text(const struct sim_case *at, char out[SIM_CASE_TEXT_MAX])
{
    struct sim_case_words words;
    sim_case_spell(at, NULL, &words);
    sim_repro_words(words.words, out, SIM_CASE_TEXT_MAX);
}

enum sim_fault_family sim_case_family(const char *fault)
{
    for (uint32_t i = 0; i < SIM_FAULT_FAMILY_COUNT; i++) {
        const char *name = sim_fault_family_name((enum sim_fault_family)i);
        if (strncmp(fault, name, strlen(name)) == 0) {
            return (enum sim_fault_family)i;
        }
    }
    return SIM_FAULT_FAMILY_COUNT;
}

uint32_t sim_case_families(const struct sim_case *at)
{
    uint32_t families = 0;
    for (uint32_t i = 0; i < at->fault_count; i++) {
        families |= 1u << sim_case_family(at->faults[i]);
    }
    return families;
}

enum base_status sim_case_begin(const struct sim_case *at, struct sim_child *child,
                                struct base_error *error)
{
    struct sim_case_words words;
    base_assert(at->devices > 0);
    sim_case_spell(at, child->folder, &words);
    return sim_child_begin(child, words.words, error);
}

// Ends of a run that its faults may bring about; the others are of a run that could not be.
static bool is_end(int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return code == SIM_EXIT_OK || code == SIM_EXIT_FAILED || code == SIM_EXIT_NO_GATEWAY ||
           code == SIM_EXIT_NOBODY_ONLINE || code == SIM_EXIT_UNREACHED ||
           code == SIM_EXIT_NO_RELEASE || code == SIM_EXIT_UNCOUNTED || code == SIM_EXIT_THRESHOLD;
}

static uint32_t compared(const json_t *report)
{
    uint32_t bits = 0;
    size_t index;
    const json_t *oracle;
    json_array_foreach(json_object_get(report, "oracles"), index, oracle)
    {
        bool some = index < SIM_ORACLE_COUNT && json_is_true(json_object_get(oracle, "compared"));
        bits |= some ? 1u << index : 0;
    }
    return bits;
}

// The device that the invariant in `broken` names.
static void read_device(const json_t *report, struct sim_case_end *out)
{
    size_t index;
    const json_t *oracle;
    json_array_foreach(json_object_get(report, "oracles"), index, oracle)
    {
        const char *name = json_string_value(json_object_get(oracle, "name"));
        const json_t *device = json_object_get(oracle, "device");
        if (name != NULL && strcmp(name, out->broken) == 0 && json_is_integer(device)) {
            (void)snprintf(out->device, sizeof(out->device), "%llu",
                           (unsigned long long)json_integer_value(device));
        }
    }
}

void sim_case_read(const struct sim_child *child, int status, struct sim_case_end *out)
{
    json_t *report = is_end(status) ? sim_child_report(child) : NULL;
    *out = (struct sim_case_end){.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1};
    out->could_not = out->exit == SIM_EXIT_USAGE || out->exit == SIM_EXIT_REFUSED ||
                     out->exit == SIM_EXIT_LOCAL || out->exit == SIM_EXIT_NOBODY_FITS;
    out->nothing = out->exit == SIM_EXIT_NO_GATEWAY || out->exit == SIM_EXIT_NOBODY_ONLINE ||
                   out->exit == SIM_EXIT_UNREACHED || out->exit == SIM_EXIT_NO_RELEASE ||
                   out->exit == SIM_EXIT_UNCOUNTED;
    out->compared = compared(report);
    sim_child_said(child, out->said);
    const char *broken = report != NULL ? sim_report_broken(report, NULL) : "died";
    (void)snprintf(out->broken, sizeof(out->broken), "%s", broken != NULL ? broken : "");
    read_device(report, out);
    json_decref(report);
}
