// Waits until somebody saves something in a task's folder, for `walle task run --watch`. One
// thread.
#ifndef TASK_WATCH_H
#define TASK_WATCH_H

#include <stdint.h>

#define TASK_WATCH_ENTRIES_MAX 65536 // files and folders of a watched folder that are looked at
#define TASK_WATCH_MS          200   // between two looks

// What names, times and sizes in the folder come to; what begins with a dot is passed over. Of a
// folder that cannot be read 0.
uint64_t task_watch_stamp(const char *folder);
// Returns when the folder's stamp is another one, and stayed so for a look: the new stamp.
uint64_t task_watch_wait(const char *folder, uint64_t stamp);

#endif
