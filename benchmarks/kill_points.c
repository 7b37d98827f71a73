/* Counts the system calls by which a process renames below one folder, and kills it at one of them.
 *
 * Loaded by LD_PRELOAD, so it sees what Python, TensorFlow and SQLite rename alike.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static char folder[4096];
static int fatal, is_after;
static atomic_int count;

void kill_points_arm(const char *below, int number, int after) {
    strncpy(folder, below, sizeof folder - 1);
    fatal = number;
    is_after = after;
    count = 0;
}

int kill_points_count(void) { return count; }

static int begin(const char *path) {
    char here[4096];
    if (!folder[0]) return 0;
    const char *full = path[0] == '/' ? path : getcwd(here, sizeof here);
    if (!full || strncmp(full, folder, strlen(folder))) return 0;
    int is_it = atomic_fetch_add(&count, 1) + 1 == fatal;
    if (is_it && !is_after) kill(getpid(), SIGKILL);
    return is_it;
}

static void end(int is_it) {
    if (is_it && is_after) kill(getpid(), SIGKILL);
}

#define WRAP(name, parameters, arguments, target)                    \
    int name parameters {                                            \
        int (*real) parameters = dlsym(RTLD_NEXT, #name);            \
        int is_it = begin(target);                                   \
        int result = real arguments;                                 \
        end(is_it);                                                  \
        return result;                                               \
    }

WRAP(rename, (const char *a, const char *b), (a, b), b)
WRAP(renameat, (int d, const char *a, int e, const char *b), (d, a, e, b), b)
WRAP(renameat2, (int d, const char *a, int e, const char *b, unsigned int f), (d, a, e, b, f), b)
WRAP(link, (const char *a, const char *b), (a, b), b)
WRAP(linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f), b)
