// What the example's tools give: files of a small project, and the log of a build.

export const files = {
  invoice: `from datetime import date

from .customers import Customer
from .dates import due_date


class Invoice:
    """An invoice, as it is sent."""

    def __init__(self, customer: Customer, lines, dated: date):
        self.customer = customer
        self.lines = lines
        self.dated = dated
        self.due = due_date(dated, customer.terms)

    @classmethod
    def create(cls, customer: Customer, lines):
        return cls(customer, lines, date.today())

    def total(self):
        return sum(line.amount for line in self.lines)
`,
  dates: `"""Dates of invoices and payments."""

from datetime import date, timedelta


def due_date(dated: date, terms: int) -> date:
    """The day by which it is to be paid."""
    return dated + timedelta(days=terms)
`,
  customers: `from dataclasses import dataclass


@dataclass
class Customer:
    name: str
    terms: int = 30
    #: where the customer is: an IANA name
    zone: str = "UTC"
`,
  test: `

@pytest.mark.parametrize(
    ("zone", "now", "expected"),
    [
        ("Pacific/Auckland", "2027-03-31T20:30:00Z", date(2027, 4, 1)),
        ("Pacific/Honolulu", "2027-04-01T05:30:00Z", date(2027, 3, 31)),
    ],
)
def test_dated_where_the_customer_is(zone, now, expected, freezer):
    freezer.move_to(now)
    invoice = Invoice.create(Customer("Kiwi Ltd", zone=zone), lines=[])
    assert invoice.dated == expected
`,
  helper: `

def today_for(customer) -> date:
    """Today's date where the customer is."""
    return datetime.now(ZoneInfo(customer.zone)).date()
`,
};

/** The log of a build, with the colours that a terminal shows. */
export function buildLog() {
  const lines = ["\u001b[1m==> nightly #1187\u001b[0m on runner-7 (TZ=UTC)"];
  for (let test = 1; test <= 402; test++) {
    const name = `tests/test_${["invoice", "pdf", "tax", "ledger", "credit", "import"][test % 6]}.py::test_case_${String(test).padStart(3, "0")}`;
    if (test === 287) lines.push(`\u001b[31mFAILED\u001b[0m ${name} (InvoiceDateTest) \u001b[33mAssertionError: 2027-03-31 != 2027-04-01\u001b[0m`);
    else lines.push(`\u001b[32mPASSED\u001b[0m ${name} ${(0.01 + ((test * 37) % 90) / 1000).toFixed(3)}s`);
  }
  lines.push("", "\u001b[31m1 failed\u001b[0m, \u001b[32m401 passed\u001b[0m in 31.18s", "##[error]Process completed with exit code 1.");
  return lines.join("\n");
}

/** Durations of 14 builds, as columns; the last three are red. */
export function chart() {
  const values = [44, 46, 43, 47, 45, 44, 48, 46, 45, 47, 44, 78, 80, 79];
  const [width, height, column] = [300, 110, 20];
  return {
    width,
    height,
    /**
     * @param {number} x
     * @param {number} y
     */
    pixel(x, y) {
      const index = Math.floor((x - 8) / column);
      const inside = x >= 8 && index < values.length && (x - 8) % column < column - 6;
      if (y === height - 8) return [120, 126, 136];
      if (!inside || y > height - 9 || y < height - 8 - (values[index] ?? 0)) return [248, 249, 251];
      return index >= 11 ? [200, 62, 56] : [86, 128, 196];
    },
  };
}
