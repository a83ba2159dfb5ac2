// Preloaded into a build: names what it tries to reach beyond this machine, in the file $NETWORK_LOG, and refuses it.
//
// A container has no network anyway; this says which host was wanted, whatever the program makes of its error. On a host it is
// also what refuses, to every program that asks the C library.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// libfaketime, which `make reproduce` loads, takes the false wall clock off a time of the true monotonic one: time.sleep() of
// Python 3.11 then fails with EINVAL, and with it whatever waits for a process, as setuptools-scm does for git.
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
  int (*original)(clockid_t, int, const struct timespec *, struct timespec *) = dlsym(RTLD_NEXT, "clock_nanosleep");
  if (clock != CLOCK_MONOTONIC) return original(clock, flags, until, left);
  return syscall(SYS_clock_nanosleep, clock, flags, until, left) ? errno : 0;
}

static void note(const char *what) {
  const char *path = getenv("NETWORK_LOG");
  int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
  char line[300];
  int length = snprintf(line, sizeof line, "%.280s\n", what);
  if (file >= 0) {
    if (write(file, line, length) < 0) perror(path);
    close(file);
  }
}

static int is_here(const char *name) {
  char own[256] = "";
  gethostname(own, sizeof own - 1);
  struct in6_addr address;
  return !name || !*name || !strcmp(name, own) || !strcmp(name, "localhost") ||
         inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1;  // connect() decides
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
  int (*original)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
      dlsym(RTLD_NEXT, "getaddrinfo");
  if (is_here(node)) return original(node, service, hints, found);
  note(node);
  return EAI_FAIL;
}

struct hostent *gethostbyname(const char *name) {
  struct hostent *(*original)(const char *) = dlsym(RTLD_NEXT, "gethostbyname");
  if (is_here(name)) return original(name);
  note(name);
  h_errno = NO_RECOVERY;
  return NULL;
}

int connect(int descriptor, const struct sockaddr *to, socklen_t length) {
  int (*original)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
  char name[INET6_ADDRSTRLEN] = "", what[INET6_ADDRSTRLEN + 16];
  int port = 0, here = 1;
  if (to->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)to;
    here = ntohl(v4->sin_addr.s_addr) >> 24 == 127 || v4->sin_addr.s_addr == INADDR_ANY;
    inet_ntop(AF_INET, &v4->sin_addr, name, sizeof name);
    port = ntohs(v4->sin_port);
  } else if (to->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)to;
    here = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) || IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
    inet_ntop(AF_INET6, &v6->sin6_addr, name, sizeof name);
    port = ntohs(v6->sin6_port);
  }
  if (here) return original(descriptor, to, length);
  snprintf(what, sizeof what, "%s port %d", name, port);
  note(what);
  errno = ENETUNREACH;
  return -1;
}
