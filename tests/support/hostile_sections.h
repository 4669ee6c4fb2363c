// Files of hostile scripts (tests/hostile_scripts/ends), cut into their scripts: each stands behind
// a line "# ==== NAME: END". Used by test_hostile_neighbours and bench/container/container_tasks.c.
#ifndef HOSTILE_SECTIONS_H
#define HOSTILE_SECTIONS_H

#include "base/str.h"
#include "wire/report.h"

#include <stdbool.h>
#include <stddef.h>

#define HOSTILE_SCRIPTS_MAX 300

struct hostile_script {
    struct base_str name;
    // What it ends in: "budget", "memory", "stack", or the type of an exception that nobody
    // catches.
    struct base_str end;
    struct base_str source;
};

struct hostile_sections {
    struct hostile_script scripts[HOSTILE_SCRIPTS_MAX];
    size_t count;
    char *texts[8]; // of the files, which the scripts point into
    size_t text_count;
};

// Adds those of all files NAME.py of the folder, in the order of their names. False: a file cannot
// be read, or has a head that is none.
bool hostile_sections_read(const char *folder, struct hostile_sections *sections);
void hostile_sections_done(struct hostile_sections *sections);
bool hostile_script_is_endless(const struct hostile_script *script); // its budget ends it
// Does a run that was reported so end as the script says?
bool hostile_script_ended(const struct hostile_script *script, enum wire_outcome_kind outcome,
                          struct base_str detail);

#endif
