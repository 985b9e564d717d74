import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main method of one class after another, each with its own arguments, input and output: a
 * JVM's start costs a hundred times what most of them do.
 *
 * <p>A request is a class name, a number of arguments, the arguments, and the input; the answer an
 * exit code, the output, and the errors. Numbers have 4 bytes; texts begin with their length.
 */
public class Programs {
    /** Unwinds the stack of a program that has exited. Some catch it, which changes nothing. */
    static class Exited extends RuntimeException {}

    /** Takes what is printed until the program exits: some keep System.out for the next ones. */
    static class Printed extends OutputStream {
        final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int value) {
            if (exitCode == null) bytes.write(value);
        }

        @Override
        public synchronized void write(byte[] more, int start, int length) {
            if (exitCode == null) bytes.write(more, start, length);
        }
    }

    static final List<Runnable> HOOKS = new ArrayList<>();
    static volatile Integer exitCode;

    public static void main(String[] args) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        Printed output = new Printed();
        Printed errors = new Printed();
        System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> exit(code));
        Exit.setHaltProcedure((code, message) -> exit(code));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        while (true) {
            String name;
            try {
                name = text(requests);
            } catch (EOFException end) {
                Runtime.getRuntime().halt(0);
                return;
            }
            String[] given = new String[requests.readInt()];
            for (int i = 0; i < given.length; i++) given[i] = text(requests);
            System.setIn(new ByteArrayInputStream(bytes(requests)));
            run(name, given);
            answers.writeInt(exitCode);
            for (Printed printed : List.of(output, errors)) {
                answers.writeInt(printed.bytes.size());
                printed.bytes.writeTo(answers);
                printed.bytes.reset();
            }
            answers.flush();
            exitCode = null;
        }
    }

    static void run(String name, String[] given) {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) given);
            exit(0);
        } catch (Exited done) {
            // As it should be.
        } catch (InvocationTargetException thrown) {
            if (exitCode == null) {
                thrown.getCause().printStackTrace();
                exitCode = 1;
            }
        } catch (ReflectiveOperationException missing) {
            missing.printStackTrace();
            exitCode = 1;
        }
    }

    /** The first call counts: after it a process would be no more. */
    static void exit(int code) {
        if (exitCode == null) {
            List<Runnable> hooks = List.copyOf(HOOKS);
            HOOKS.clear();
            hooks.forEach(Runnable::run);
            System.out.flush();
            exitCode = code;
        }
        throw new Exited();
    }

    static byte[] bytes(DataInputStream requests) throws IOException {
        return requests.readNBytes(requests.readInt());
    }

    static String text(DataInputStream requests) throws IOException {
        return new String(bytes(requests), StandardCharsets.UTF_8);
    }
}
