// What the two LMDB environments of a device share: a look at the file before LMDB opens it, which
// a damaged one would lead outside its map, and a place aside for one that is damaged.
#ifndef POSIX_ENV_H
#define POSIX_ENV_H

#include "base/error.h"
#include "base/log.h"
#include "base/record_seal.h"

#include <lmdb.h>

enum base_status posix_status_of_mdb(int result); // what LMDB answers
// Are the pages of FOLDER/NAME/data.mdb sound? A folder without the file is. CORRUPT: `error` says
// what was wrong; INVALID: lock.mdb is no regular file, which is for people; IO, NOMEM, TOO_LARGE.
BASE_NODISCARD enum base_status posix_env_check(const char *folder, const char *name,
                                                struct base_error *error);
// Makes NAME.damaged of NAME in `folder`, in place of an older one, and a new empty NAME; the log
// says `what` is damaged, and why. IO.
BASE_NODISCARD enum base_status posix_env_set_aside(int folder, const char *name, const char *what,
                                                    const char *why, const struct base_log *log);
// Puts a value with its seal, under `table`. MDB_MAP_FULL and the like, as mdb_put.
int posix_env_put(MDB_txn *txn, MDB_dbi dbi, const char *table, MDB_val *key,
                  struct base_span bytes);
// A value without its seal, which lives as `value` does. CORRUPT.
BASE_NODISCARD enum base_status posix_env_open_value(const char *table, const MDB_val *key,
                                                     const MDB_val *value,
                                                     struct base_span *out_bytes);

#endif
