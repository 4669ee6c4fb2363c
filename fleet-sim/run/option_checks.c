// Checks of options that look further than at one word: at the population, at the root and at
// files. fleet_options.c calls them when all words were read, on the main thread. What they refuse
// is refused before anything starts, in words that name the option.
#include "run/option_checks.h"

#include <unistd.h>

enum base_status sim_check_evidence(const struct sim_options *options,
                                    const struct sim_words *words, struct base_error *error)
{
    if ((options->evidence[0] == '\0') != (options->evidence_key[0] == '\0')) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--evidence FILE and --evidence-key FILE go together");
    }
    if (options->evidence[0] == '\0') {
        return BASE_OK;
    }
    if (access(options->evidence, F_OK) == 0) { // said before the run
        return base_error_set(error, BASE_ERR_EXISTS,
                              "--evidence: %.100s is there already: evidence is a new file",
                              options->evidence);
    }
    if (options->where.cond_count > 0 || options->bad.rule_count > 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--evidence is of the version as it is, on all that --target means: "
                              "neither --where nor --bad goes with it");
    }
    (void)words;
    return BASE_OK;
}

enum base_status sim_check_somebody(const struct sim_options *options,
                                    const struct sim_words *words, struct base_error *error)
{
    const struct sim_population population = {options->seed, options->beta_per_10000};
    bool where = options->where.cond_count > 0;
    if (sim_options_want(options, &population, sim_options_index(options, &population, 0))) {
        return BASE_OK;
    }
    return base_error_set(
        error, BASE_ERR_NOT_FOUND, "--%s: no virtual device is like this: %.100s%s%.100s",
        where ? "where" : "target", where ? words->where : "",
        where && options->target != NULL ? ", --target: " : "", options->target_text);
}

enum base_status sim_check_rules(const struct sim_options *options, const struct sim_words *words,
                                 struct base_error *error)
{
    for (uint32_t i = 0; i < options->bad.rule_count; i++) {
        if (!sim_options_meet(options, &options->bad.rules[i].predicate)) {
            return base_error_set(error, BASE_ERR_NOT_FOUND,
                                  "--bad: none of the %u virtual devices is like this: %.100s",
                                  options->devices, words->bad[i]);
        }
    }
    return BASE_OK;
}
