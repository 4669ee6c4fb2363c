# A list grows while another argument of the same call is measured.
grows = [1]


class Grower:
    def __len__(self):
        grows.extend(range(1000))
        return 0

    def __iter__(self):
        return iter(())


def count(*args):
    return len(args)


count(*grows, *Grower())
