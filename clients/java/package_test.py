#!/usr/bin/env python3
"""The Java library as its users get it: the jar is built, its tests, the contract of all client libraries among them,
run against the daemon of the build, and the examples of the README are compiled and run with the jar alone. Without
Maven and a JDK, or without the registry, the test is skipped and says so.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "contract"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "support"))
import outbox
import pages
import run

# What the tests of transactions need beside the jar: the driver of PostgreSQL, and Spring.
DATABASES = {"org.postgresql:postgresql": "42.7.4", "org.springframework:spring-jdbc": "6.1.14",
             "org.springframework:spring-context": "6.1.14"}
SPRING = """
@EnableTransactionManagement
public class Spring {
    final JdbcTemplate jdbc;
    final Client timers = Client.of("http://127.0.0.1:1");
    Spring(JdbcTemplate jdbc) { this.jdbc = jdbc; }
    public Spring() { this(null); }
%s
    public static void main(String[] arguments) {
        try (GenericApplicationContext context = new AnnotationConfigApplicationContext()) {
            DriverManagerDataSource source = new DriverManagerDataSource(System.getenv("JDBC_URL"));
            context.registerBean(DataSourceTransactionManager.class, () -> new DataSourceTransactionManager(source));
            context.registerBean(Spring.class, () -> new Spring(new JdbcTemplate(source)));
            context.refresh();
            Spring orders = context.getBean(Spring.class);
            orders.reserve(43);
            try {
                orders.fail(44);
                throw new AssertionError("it did not fail");
            } catch (IllegalStateException expected) {
            }
        }
    }

    @Transactional
    public void fail(long order) {
        reserve(order);
        throw new IllegalStateException("rolled back");
    }
}
"""
SPRING_IMPORTS = ["org.springframework.context.annotation.*", "org.springframework.context.support.*",
                  "org.springframework.jdbc.core.*", "org.springframework.jdbc.datasource.*",
                  "org.springframework.transaction.annotation.*"]

IMPORTS = ["com.sun.net.httpserver.HttpServer", "java.net.InetSocketAddress", "java.time.Duration", "java.util.List",
           "java.util.Map", "java.util.Objects", "java.util.stream.IntStream", "tickwheel.*"]


@unittest.skipUnless(shutil.which("mvn") and shutil.which("javac"), "Maven and a JDK are not installed")
class PackageTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tickwheel-java-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.source = shutil.copytree(HERE, os.path.join(self.folder, "source"),
                                      ignore=shutil.ignore_patterns("target"))

    def maven(self, *arguments):
        return ["mvn", "-q", "-B", *arguments]

    def test_package(self):
        # Everything is compiled and fetched before the daemon starts.
        built = subprocess.run(self.maven("-DskipTests", "package", "dependency:copy-dependencies",
                                          "-DincludeScope=runtime"), cwd=self.source, capture_output=True, text=True)
        if built.returncode != 0:
            self.assertNotIn("COMPILATION ERROR", built.stdout)
            self.skipTest("the package registry is out of reach: " + built.stdout[-300:])
        self.assertEqual(run.run(self.maven("test"), calls_all=True, cwd=self.source), 0)
        reports = [ElementTree.parse(path).getroot()
                   for path in glob.glob(os.path.join(self.source, "target", "surefire-reports", "*.xml"))]
        self.assertGreater(sum(int(report.get("tests")) for report in reports), 20)
        self.assertEqual(sum(int(report.get("skipped")) for report in reports), 0)
        jars = glob.glob(os.path.join(self.source, "target", "*.jar"))
        self.assertEqual(len(jars), 1)
        jars += glob.glob(os.path.join(self.source, "target", "dependency", "*.jar"))
        self.run_readme(jars)
        self.run_first(jars)
        if not outbox.missing():
            self.run_transactions(jars)

    def run_readme(self, jars):
        """The examples of the README without a database as one program."""
        with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
            examples = re.findall(r"```java\n(.*?)```", file.read(), re.DOTALL)
        self.assertEqual(len(examples), 6)
        self.transactions = [one for one in examples if "inTransaction" in one]
        body = "".join(one for one in examples if one not in self.transactions).replace('"http://localhost:8463"', 'System.getenv("TICKWHEEL_URL")')
        path = os.path.join(self.folder, "Readme.java")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(f"import {name};\n" for name in IMPORTS) + "public class Readme {\n"
                       "public static void main(String[] arguments) throws Exception {\n" + body +
                       "if (!failed.isEmpty()) throw failed.get(0);\n}\n}\n")
        path_of_classes = os.pathsep.join(jars)
        subprocess.run(["javac", "-cp", path_of_classes, "-d", self.folder, path], check=True)
        self.assertEqual(run.run(["java", "-cp", path_of_classes + os.pathsep + self.folder, "Readme"]), 0)

    def run_transactions(self, jars):
        """The calls in transactions of JDBC and of Spring, which the library does not depend on; and those of the README."""
        folder = os.path.join(self.folder, "databases")
        os.mkdir(folder)
        needed = "".join("<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>"
                         % (*name.split(":"), version) for name, version in DATABASES.items())
        with open(os.path.join(folder, "pom.xml"), "w", encoding="utf-8") as file:
            file.write("<project><modelVersion>4.0.0</modelVersion><groupId>shop</groupId><artifactId>shop</artifactId>"
                       f"<version>1</version><dependencies>{needed}</dependencies></project>")
        subprocess.run(self.maven("dependency:copy-dependencies"), cwd=folder, check=True)
        path = os.pathsep.join([*jars, *glob.glob(os.path.join(folder, "target", "dependency", "*.jar")), folder])
        jdbc, spring = self.transactions
        imports = "".join(f"import {name};\n" for name in [*IMPORTS, "java.sql.Connection", "java.sql.DriverManager"])
        sources = {"Transactions": None, "Jdbc": imports + "public class Jdbc { public static void main(String[] all) throws Exception {\n"
                   'Client timers = Client.of("http://127.0.0.1:1");\n' + jdbc + "}\n}\n",
                   "Spring": imports + "".join(f"import {name};\n" for name in SPRING_IMPORTS) + SPRING % spring}
        for name, source in sources.items():
            file_name = os.path.join(folder, f"{name}.java")
            if source is None:
                shutil.copy(os.path.join(HERE, "src", "test", "transaction", f"{name}.java"), file_name)
            else:
                with open(file_name, "w", encoding="utf-8") as file:
                    file.write(source)
            subprocess.run(["javac", "-nowarn", "-cp", path, "-d", folder, file_name], check=True)
        outbox.run(self, ["java", "-cp", path, "Transactions"], ["jdbc", "spring"])
        outbox.run_readme(self, ["java", "-cp", path, "Jdbc"])
        outbox.run_readme(self, ["java", "-cp", path, "Spring"], has_cancel=False)

    def run_first(self, jars):
        """The program of docs/first-ten-minutes.md, and what it prints."""
        [source] = pages.blocks("first-ten-minutes.md", "java")
        with open(os.path.join(self.folder, "Hello.java"), "w", encoding="utf-8") as file:
            file.write(source.replace('"http://127.0.0.1:8463"', 'System.getenv("TICKWHEEL_URL")'))
        self.assertTrue(run.prints(
            "Java", "java -cp 'clients/java/target/*:clients/java/target/dependency/*' Hello.java",
            ["java", "-cp", os.pathsep.join(jars), "Hello.java"], cwd=self.folder))


if __name__ == "__main__":
    unittest.main()
