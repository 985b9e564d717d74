/* The load of the broker benchmark, in C because a Python client is slower than the brokers.
 *
 *   load produce BOOTSTRAP TOPIC PARTITIONS RECORD_BYTES RECORDS BATCH_BYTES ACKS LINGER_MS PRODUCERS
 *   load paced   BOOTSTRAP TOPIC PARTITIONS RECORD_BYTES RECORDS RECORDS_A_SECOND ACKS
 *   load blast   ADDRESSES FRAME_FILE FRAMES CONNECTIONS DEPTH SECONDS ERROR_POSITION
 *   load touch   MEGABYTES
 *
 * Each prints one JSON object. `produce` and `paced` are librdkafka producers; `blast` sends prepared
 * Produce requests (FRAMES of one size in a file, one for each connection in turn, each with its HOST:PORT in
 * ADDRESSES) again and again over many connections, with DEPTH of them in flight on each; `touch` writes to memory, which a virtual machine's host may
 * have taken back, so that the run after it does not pay.
 *
 * librdkafka is the one inside confluent-kafka, which brings no header: what is used of it is declared here.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private;
} rd_kafka_message_t;
typedef void delivered_t(rd_kafka_t *, const rd_kafka_message_t *, void *);
enum { PRODUCER = 0, CONF_OK = 0, QUEUE_FULL = -184 };
rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *, delivered_t *);
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, rd_kafka_topic_conf_t *);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
int rd_kafka_produce_batch(rd_kafka_topic_t *, int32_t, int, rd_kafka_message_t *, int);
int rd_kafka_poll(rd_kafka_t *, int);
int rd_kafka_flush(rd_kafka_t *, int);
int rd_kafka_last_error(void);

enum { CHUNK = 500, PRODUCERS_MAX = 16, FLUSH_MS_MAX = 60000, CONNECTIONS_MAX = 1000, DEPTH_MAX = 64, ANSWER_BYTES_MAX = 4096 };

static _Atomic long failures;

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print_latencies(int64_t *ns, long count) {
    qsort(ns, count, sizeof *ns, by_value);
    const double parts[] = {0.5, 0.99, 0.999, 1.0};
    const char *names[] = {"p50_ms", "p99_ms", "p999_ms", "max_ms"};
    for (int i = 0; i < 4 && count > 0; i++) {
        long index = (long)(parts[i] * count);
        printf("\"%s\": %.4f, ", names[i], ns[index < count ? index : count - 1] / 1e6);
    }
}

/* ---- librdkafka ---- */

static rd_kafka_t *producer(const char *const *settings, delivered_t *delivered) {
    char error[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (; *settings; settings += 2)
        if (rd_kafka_conf_set(conf, settings[0], settings[1], error, sizeof error) != CONF_OK) {
            fprintf(stderr, "%s\n", error);
            exit(1);
        }
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_t *client = rd_kafka_new(PRODUCER, conf, error, sizeof error);
    if (!client) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
    return client;
}

static void count_failure(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err)
        failures++;
}

static void *produce_share(void *given) {
    char **args = given;
    const int partitions = atoi(args[2]), record_bytes = atoi(args[3]);
    const long records = atol(args[4]) / atoi(args[8]);
    const char *settings[] = {
        "bootstrap.servers", args[0], "batch.size", args[5], "acks", args[6], "linger.ms", args[7],
        "queue.buffering.max.messages", "500000", "queue.buffering.max.kbytes", "500000",
        "delivery.report.only.error", "true", "socket.nagle.disable", "true", NULL,
    };
    rd_kafka_t *client = producer(settings, count_failure);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, args[1], NULL);
    char *payload = malloc(record_bytes);
    memset(payload, 'x', record_bytes);
    rd_kafka_message_t chunk[CHUNK];
    long sent = 0;
    for (int partition = 0; sent < records; partition = (partition + 1) % partitions) {
        long count = records - sent < CHUNK ? records - sent : CHUNK;
        for (long i = 0; i < count; i++)
            chunk[i] = (rd_kafka_message_t){.payload = payload, .len = record_bytes};
        /* All records are alike: where the queue is full, only how many it took matters. */
        int taken = rd_kafka_produce_batch(topic, partition, 0, chunk, (int)count);
        sent += taken;
        rd_kafka_poll(client, taken < count ? 1 : 0);
    }
    if (rd_kafka_flush(client, FLUSH_MS_MAX))
        failures++;
    return NULL;
}

/* A producer has one thread that sends to a broker: with a single one it is that thread which is measured. */
static void produce(char **args) {
    const int producers = atoi(args[8]);
    pthread_t threads[PRODUCERS_MAX];
    if (producers < 1 || producers > PRODUCERS_MAX)
        die("too many producers");
    const int64_t started = now_ns();
    for (int i = 0; i < producers; i++)
        pthread_create(&threads[i], NULL, produce_share, args);
    for (int i = 0; i < producers; i++)
        pthread_join(threads[i], NULL);
    printf("{\"seconds\": %.6f, \"records\": %ld, \"failures\": %ld, \"cpu_seconds\": %.3f}\n",
           (now_ns() - started) / 1e9, atol(args[4]) / producers * producers, (long)failures, cpu_seconds());
}

static void note_latency(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    int64_t *slot = message->private; /* holds the time of sending until here */
    *slot = now_ns() - *slot;
    if (message->err)
        failures++;
}

static _Atomic int polling = 1;

static void *poll_reports(void *client) {
    while (polling)
        rd_kafka_poll(client, 100);
    return NULL;
}

static void paced(char **args) {
    const int partitions = atoi(args[2]), record_bytes = atoi(args[3]);
    const long records = atol(args[4]), rate = atol(args[5]);
    const char *settings[] = {
        "bootstrap.servers", args[0], "acks", args[6], "linger.ms", "0", "socket.nagle.disable", "true", NULL,
    };
    rd_kafka_t *client = producer(settings, note_latency);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, args[1], NULL);
    char *payload = malloc(record_bytes);
    memset(payload, 'x', record_bytes);
    /* The first second connects and is not counted. */
    const long skipped = rate;
    int64_t *latency = calloc(records + skipped, sizeof *latency);
    pthread_t poller;
    pthread_create(&poller, NULL, poll_reports, client);
    const int64_t started = now_ns();
    for (long i = 0; i < records + skipped; i++) {
        int64_t due = started + i * 1000000000LL / rate;
        struct timespec until = {due / 1000000000, due % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        latency[i] = now_ns();
        if (rd_kafka_produce(topic, i % partitions, 0, payload, record_bytes, NULL, 0, &latency[i]))
            failures++;
    }
    if (rd_kafka_flush(client, FLUSH_MS_MAX))
        failures++;
    polling = 0;
    pthread_join(poller, NULL);
    printf("{");
    print_latencies(latency + skipped, records);
    printf("\"seconds\": %.6f, \"records\": %ld, \"failures\": %ld, \"cpu_seconds\": %.3f}\n",
           (now_ns() - started) / 1e9, records, (long)failures, cpu_seconds());
}

/* ---- requests of one record ---- */

typedef struct {
    int socket;
    const char *request;
    char answer[ANSWER_BYTES_MAX];
    size_t received;
    int64_t sent_ns[DEPTH_MAX];
    unsigned sent, answered;
} connection_t;

typedef struct {
    char *bytes;
    size_t size; /* of each; they follow one another */
    size_t error_position;
} requests_t;

static void open_connection(connection_t *connection, const char *host, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, host, &address.sin_addr);
    connection->socket = socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    setsockopt(connection->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(connection->socket, (struct sockaddr *)&address, sizeof address))
        die("connect");
}

static void send_request(connection_t *connection, const requests_t *requests, int depth) {
    connection->sent_ns[connection->sent++ % depth] = now_ns();
    if (send(connection->socket, connection->request, requests->size, MSG_NOSIGNAL) != (ssize_t)requests->size)
        die("send");
}

/* Takes the answers that have arrived whole, and returns how many. */
static int take_answers(connection_t *connection, const requests_t *requests, int depth, int64_t *latency) {
    ssize_t got = recv(connection->socket, connection->answer + connection->received,
                       sizeof connection->answer - connection->received, 0);
    if (got <= 0)
        die("the broker closed a connection");
    connection->received += got;
    size_t position = 0;
    int taken = 0;
    while (connection->received - position >= 4) {
        uint32_t size;
        memcpy(&size, connection->answer + position, 4);
        size = ntohl(size) + 4;
        if (size > sizeof connection->answer || size < requests->error_position + 2)
            die("an answer of a strange size");
        if (connection->received - position < size)
            break;
        uint16_t error;
        memcpy(&error, connection->answer + position + requests->error_position, 2);
        failures += error != 0;
        latency[taken++] = now_ns() - connection->sent_ns[connection->answered++ % depth];
        position += size;
    }
    connection->received -= position;
    memmove(connection->answer, connection->answer + position, connection->received);
    return taken;
}

static requests_t read_requests(const char *path, int count, size_t error_position) {
    requests_t requests = {malloc(1 << 20), 0, error_position};
    FILE *file = fopen(path, "rb");
    if (!file)
        die(path);
    requests.size = fread(requests.bytes, 1, 1 << 20, file) / count;
    fclose(file);
    return requests;
}

/* The address of a frame: the list has one for each, with commas between them. */
static void open_for(connection_t *connection, const char *addresses, int frame) {
    while (frame-- > 0) {
        addresses = strchr(addresses, ',');
        if (!addresses++)
            die("fewer addresses than frames");
    }
    char host[64];
    int port;
    if (sscanf(addresses, "%63[^:]:%d", host, &port) != 2)
        die("an address is HOST:PORT");
    open_connection(connection, host, port);
}

static void blast(char **args) {
    const int frames = atoi(args[2]), count = atoi(args[3]), depth = atoi(args[4]);
    const double seconds = atof(args[5]);
    if (count > CONNECTIONS_MAX || depth > DEPTH_MAX)
        die("too many connections or requests in flight");
    const requests_t requests = read_requests(args[1], frames, atol(args[6]));
    static connection_t connections[CONNECTIONS_MAX];
    const int poller = epoll_create1(0);
    for (int i = 0; i < count; i++) {
        open_for(&connections[i], args[0], i % frames);
        connections[i].request = requests.bytes + (i % frames) * requests.size;
        struct epoll_event event = {EPOLLIN, {.ptr = &connections[i]}};
        epoll_ctl(poller, EPOLL_CTL_ADD, connections[i].socket, &event);
    }
    const long latencies_max = 20000000;
    int64_t *latency = mmap(NULL, (latencies_max + DEPTH_MAX) * sizeof *latency, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const int64_t started = now_ns(), end = started + (int64_t)(seconds * 1e9);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < depth; j++)
            send_request(&connections[i], &requests, depth);
    long answered = 0, in_flight = (long)count * depth;
    while (in_flight > 0 && answered < latencies_max) {
        struct epoll_event events[64];
        int ready = epoll_wait(poller, events, 64, 10000);
        if (ready <= 0)
            die("no answer for 10 s");
        for (int i = 0; i < ready; i++) {
            int taken = take_answers(events[i].data.ptr, &requests, depth, latency + answered);
            answered += taken;
            in_flight -= taken;
            for (; taken > 0 && now_ns() < end; taken--, in_flight++)
                send_request(events[i].data.ptr, &requests, depth);
        }
    }
    printf("{");
    const double elapsed = (now_ns() - started) / 1e9;
    print_latencies(latency, answered);
    printf("\"seconds\": %.6f, \"records\": %ld, \"failures\": %ld, \"cpu_seconds\": %.3f}\n", elapsed, answered,
           (long)failures, cpu_seconds());
}

static void touch(char **args) {
    const size_t size = (size_t)atol(args[0]) << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        die("mmap");
    const int64_t started = now_ns();
    for (size_t i = 0; i < size; i += 4096)
        memory[i] = 1;
    printf("{\"seconds\": %.6f}\n", (now_ns() - started) / 1e9);
}

int main(int count, char **args) {
    const struct {
        const char *name;
        int count;
        void (*run)(char **);
    } commands[] = {{"produce", 9, produce}, {"paced", 7, paced}, {"blast", 7, blast}, {"touch", 1, touch}};
    for (size_t i = 0; count > 1 && i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(args[1], commands[i].name) && count - 2 == commands[i].count) {
            commands[i].run(args + 2);
            return failures != 0;
        }
    fprintf(stderr, "usage: load produce|paced|blast|touch ..., see the source's first lines\n");
    return 2;
}
