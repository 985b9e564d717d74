// franz-go as the suite's client: one command a run, records as JSON lines on stdin and stdout.
//
//	interop create BOOTSTRAP TOPIC PARTITIONS
//	interop produce BOOTSTRAP TOPIC PARTITION ACKS CODEC        records in, offsets out
//	interop consume BOOTSTRAP TOPIC PARTITION START COUNT       START: begin, end, an offset, @milliseconds
//	interop end BOOTSTRAP TOPIC PARTITION
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	runSecondsMax = 120
	// Below a broker's default max.message.bytes, above a record of a megabyte.
	batchBytesMax  = 1_040_000
	recordBytesMax = 2_000_000
	lingerMs       = 20
)

// Header values and the others are base64 in JSON; null stays null.
type header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

type record struct {
	Offset      int64    `json:"offset"`
	Key         []byte   `json:"key"`
	Value       []byte   `json:"value"`
	Headers     []header `json:"headers"`
	TimestampMs int64    `json:"timestamp_ms"`
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), runSecondsMax*time.Second)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return errors.New("usage: interop create|produce|consume|end BOOTSTRAP TOPIC ...")
	}
	command, bootstrap, topic, rest := args[0], args[1], args[2], args[3:]
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	numbers := make([]int64, len(rest))
	for i, text := range rest {
		numbers[i], _ = strconv.ParseInt(text, 10, 64)
	}
	switch {
	case command == "create" && len(rest) == 1:
		return create(ctx, bootstrap, topic, int32(numbers[0]))
	case command == "produce" && len(rest) == 3:
		return produce(ctx, bootstrap, topic, int32(numbers[0]), rest[1], rest[2], out)
	case command == "consume" && len(rest) == 3:
		return consume(ctx, bootstrap, topic, int32(numbers[0]), rest[1], int(numbers[2]), out)
	case command == "end" && len(rest) == 1:
		return end(ctx, bootstrap, topic, int32(numbers[0]), out)
	}
	return fmt.Errorf("no such command: %v", args)
}

func create(ctx context.Context, bootstrap, topic string, partitions int32) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return err
	}
	defer client.Close()
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = runSecondsMax * 1000
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, partitions, 1
	request.Topics = append(request.Topics, wanted)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(response.Topics[0].ErrorCode)
}

func producerOptions(acks, codec string) []kgo.Opt {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	options := []kgo.Opt{kgo.ProducerBatchCompression(codecs[codec])}
	switch acks {
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "all":
		options = append(options, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DisableIdempotentWrite())
	}
	return options // otherwise franz-go's default, which is idempotent
}

func produce(
	ctx context.Context, bootstrap, topic string, partition int32, acks, codec string, out io.Writer,
) error {
	options := append(producerOptions(acks, codec),
		kgo.SeedBrokers(bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(lingerMs*time.Millisecond),
		kgo.ProducerBatchMaxBytes(batchBytesMax),
		kgo.MaxBufferedRecords(200_000),
	)
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	lines := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<20))
	var sent []*kgo.Record
	var failed error
	for {
		var line record
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		next := &kgo.Record{
			Topic: topic, Partition: partition, Key: line.Key, Value: line.Value,
			Timestamp: time.UnixMilli(line.TimestampMs),
		}
		for _, h := range line.Headers {
			next.Headers = append(next.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		sent = append(sent, next)
		client.Produce(ctx, next, func(_ *kgo.Record, err error) {
			if err != nil && failed == nil { // promises are called one at a time
				failed = err
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	for _, r := range sent {
		fmt.Fprintln(out, r.Offset)
	}
	return failed
}

func startOffset(start string) (kgo.Offset, error) {
	switch {
	case start == "begin":
		return kgo.NewOffset().AtStart(), nil
	case start == "end":
		return kgo.NewOffset().AtEnd(), nil
	case strings.HasPrefix(start, "@"):
		timestamp, err := strconv.ParseInt(start[1:], 10, 64)
		return kgo.NewOffset().AfterMilli(timestamp), err
	}
	offset, err := strconv.ParseInt(start, 10, 64)
	return kgo.NewOffset().At(offset), err
}

func consume(
	ctx context.Context, bootstrap, topic string, partition int32, start string, count int, out *bufio.Writer,
) error {
	offset, err := startOffset(start)
	if err != nil {
		return err
	}
	if start == "end" { // the caller produces only after it has read where the end was
		last, err := endOffset(ctx, bootstrap, topic, partition)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, last)
		out.Flush()
		offset = kgo.NewOffset().At(last)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: offset}}),
		kgo.FetchMaxPartitionBytes(recordBytesMax),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	lines := json.NewEncoder(out)
	for count > 0 {
		fetches := client.PollRecords(ctx, count)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, r := range fetches.Records() {
			line := record{r.Offset, r.Key, r.Value, []header{}, r.Timestamp.UnixMilli()}
			for _, h := range r.Headers {
				line.Headers = append(line.Headers, header{h.Key, h.Value})
			}
			if err := lines.Encode(line); err != nil {
				return err
			}
			count--
		}
	}
	return nil
}

func end(ctx context.Context, bootstrap, topic string, partition int32, out io.Writer) error {
	last, err := endOffset(ctx, bootstrap, topic, partition)
	fmt.Fprintln(out, last)
	return err
}

func endOffset(ctx context.Context, bootstrap, topic string, partition int32) (int64, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	request := kmsg.NewPtrListOffsetsRequest()
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	place := kmsg.NewListOffsetsRequestTopicPartition()
	place.Partition, place.Timestamp = partition, -1
	asked.Partitions = append(asked.Partitions, place)
	request.Topics = append(request.Topics, asked)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return 0, err
	}
	answer := response.Topics[0].Partitions[0]
	return answer.Offset, kerr.ErrorForCode(answer.ErrorCode)
}
