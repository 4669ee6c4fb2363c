// A scratch folder for a test of code that reads and writes files: made in setup, with paths, whole
// files and folders below it, removed with all that is in it. Header only; one folder at a time.
#ifndef FOLDER_KIT_H
#define FOLDER_KIT_H

#include "test_kit.h"

#include <fts.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER_KIT_PATHS 8 // that are good at the same time

static char folder_kit[64];

// The path of `name` in the folder, until so many more were asked for.
static inline const char *folder_path(const char *name)
{
    static char paths[FOLDER_KIT_PATHS][512];
    static unsigned next;
    char *path = paths[next++ % FOLDER_KIT_PATHS];
    (void)snprintf(path, sizeof(paths[0]), "%s/%s", folder_kit, name);
    return path;
}

static inline void folder_write(const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(folder_path(name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static inline void folder_text(const char *name, const char *text)
{
    folder_write(name, text, strlen(text));
}

static inline void folder_make(const char *name)
{
    assert_int_equal(mkdir(folder_path(name), 0700), 0);
}

static inline int folder_setup(void **state)
{
    (void)state;
    (void)snprintf(folder_kit, sizeof(folder_kit), "/tmp/walle-unit-XXXXXX");
    assert_non_null(mkdtemp(folder_kit));
    return 0;
}

static inline int folder_teardown(void **state)
{
    (void)state;
    char *const roots[] = {folder_kit, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *entry; walk != NULL && (entry = fts_read(walk)) != NULL;) {
        if (entry->fts_info != FTS_D) {
            (void)remove(entry->fts_path);
        }
    }
    if (walk != NULL) {
        (void)fts_close(walk);
    }
    return access(folder_kit, F_OK) == 0;
}

#endif
