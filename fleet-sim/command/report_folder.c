// Makes the folder of --out. run/fleet_run.c, certify/certify_play.c and swarm/ call it on the main
// thread before anything is started: whether reports can be written is known before there are
// any.
#include "command/report_folder.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum base_status refuse(const char *path, int number, struct base_error *error)
{
    return base_error_set(error, BASE_ERR_IO, "--out %s: %s (a folder for the reports)", path,
                          strerror(number));
}

enum base_status sim_report_folder_make(const char *path, struct base_error *error)
{
    char part[PATH_MAX];
    size_t size = strlen(path);
    if (size >= sizeof(part)) {
        return refuse("FOLDER", ENAMETOOLONG, error);
    }
    for (size_t i = 1; i <= size; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            return refuse(part, errno, error);
        }
    }
    struct stat info;
    if (stat(path, &info) != 0) {
        return refuse(path, errno, error);
    }
    if (!S_ISDIR(info.st_mode)) {
        return refuse(path, ENOTDIR, error);
    }
    return access(path, W_OK | X_OK) == 0 ? BASE_OK : refuse(path, errno, error);
}
