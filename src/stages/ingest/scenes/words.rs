//! Five captions of a scene, each in its own words.
//!
//! What varies: which things are named first, which of their properties are said, where they are (in the picture or to
//! each other), the background, the wording. What is said is true.

use super::colour::Colour;
use super::ground::Ground;
use super::scene::{Scene, Size, Thing};
use super::shapes::Shape;
use crate::kernels::sample::Sample;

/// Five sentences about `scene`, in random order.
pub(super) fn captions(scene: &Scene) -> [String; 5] {
    let mut teller = Teller { scene, voice: scene.voice.clone() };
    let mut texts = [teller.list(), teller.relate(), teller.locate(), teller.set_the_scene(), teller.say_little()]
        .map(|text| sentence(&text));
    teller.voice.shuffle(&mut texts);
    texts
}

/// A scene and the randomness of its telling.
struct Teller<'s> {
    scene: &'s Scene,
    voice: Sample,
}

impl<'s> Teller<'s> {
    /// "a big red ball, two small fish and a green tree in the snow"
    fn list(&mut self) -> String {
        let things = self.shuffled();
        let parts: Vec<String> = things.iter().map(|thing| self.full(thing)).collect();
        let opening = self.pick(&["", "", there_is(things[0]), "a picture of", "here we see"]);
        format!("{opening} {} {}", and(&parts), self.ground())
    }

    /// "the red ball is to the left of the two small fish, and a green tree is above them"
    fn relate(&mut self) -> String {
        let things = self.shuffled();
        let first = self.full(things[0]);
        let verb = self.verb(things[0]);
        let relation = self.relation(things[0], things[1]);
        let second = self.full(things[1]);
        let mut text = format!("{first} {verb} {relation} {second}");
        if let Some(third) = things.get(2) {
            let (verb, other) = (self.verb(third), things[self.voice.below(2)]);
            let relation = self.relation(third, other);
            text = format!("{text}, and {} {verb} {relation} {}", self.full(third), self.the(other));
        }
        text
    }

    /// "a red ball in the upper left, two small fish at the bottom"
    fn locate(&mut self) -> String {
        let things = self.shuffled();
        let brief = self.voice.below(2) == 0;
        let parts: Vec<String> = things
            .iter()
            .map(|thing| {
                let name = if brief { self.brief(thing) } else { self.full(thing) };
                format!("{name} {}", self.position(thing))
            })
            .collect();
        match self.voice.below(3) {
            0 => format!("{} {}", there_is(things[0]), and(&parts)),
            1 => format!("{} {}", and(&parts), self.ground()),
            _ => parts.join(", "),
        }
    }

    /// "in the snow, a big ball sits above two small fish"
    fn set_the_scene(&mut self) -> String {
        let things = self.shuffled();
        let ground = self.ground();
        let (first, second) = (self.full(things[0]), self.brief(things[1]));
        let (verb, relation) = (self.verb(things[0]), self.relation(things[0], things[1]));
        let text = format!("{ground}, {first} {verb} {relation} {second}");
        match things.get(2) {
            Some(third) => {
                let link = self.pick(&["with", "together with", "and also"]);
                format!("{text}, {link} {}", self.brief(third))
            }
            None => text,
        }
    }

    /// "someone put a red ball next to some fish"
    fn say_little(&mut self) -> String {
        let things = self.shuffled();
        let (first, second) = (self.brief(things[0]), self.brief(things[1]));
        let third = things.get(2).map(|third| self.brief(third));
        let ground = self.ground();
        let mut text = match self.voice.below(4) {
            0 => format!("{first} and {second}"),
            1 => format!("{first} with {second}"),
            2 => format!("someone has put {first} near {second}"),
            _ => format!("this shows {first} and {second}"),
        };
        if let Some(third) = third {
            text = format!("{text}, {} {third}", self.pick(&["also", "plus", "with"]));
        }
        if self.voice.below(2) == 0 { format!("{text} {ground}") } else { text }
    }

    fn shuffled(&mut self) -> Vec<&'s Thing> {
        let mut things: Vec<&Thing> = self.scene.things.iter().collect();
        self.voice.shuffle(&mut things);
        things
    }

    fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.voice.below(words.len())]
    }

    /// With size, colour and number.
    fn full(&mut self, thing: &Thing) -> String {
        let size = self.pick(size_words(thing.size));
        let colour = self.colour(thing);
        let noun = self.noun(thing);
        if thing.size == Size::Medium && self.voice.below(2) == 0 {
            return counted(thing, &[colour, noun]);
        }
        counted(thing, &[size, colour, noun])
    }

    /// With colour and number.
    fn brief(&mut self, thing: &Thing) -> String {
        let colour = self.colour(thing);
        counted(thing, &[colour, self.noun(thing)])
    }

    /// Of a thing that was named before.
    fn the(&mut self, thing: &Thing) -> String {
        let plural = if thing.count > 1 { plural(self.noun(thing)) } else { self.noun(thing).to_owned() };
        if self.voice.below(2) == 0 { format!("the {} {plural}", self.colour(thing)) } else { format!("the {plural}") }
    }

    /// The usual word mostly, another one now and then.
    fn colour(&mut self, thing: &Thing) -> &'static str {
        let words = colour_words(thing.colour);
        if self.voice.below(4) == 0 { self.pick(words) } else { words[0] }
    }

    fn noun(&mut self, thing: &Thing) -> &'static str {
        let words = nouns(thing.shape);
        if self.voice.below(3) == 0 { self.pick(words) } else { words[0] }
    }

    fn verb(&mut self, thing: &Thing) -> &'static str {
        self.pick(if thing.count > 1 { &["are", "are", "sit"] } else { &["is", "is", "sits"] })
    }

    fn ground(&mut self) -> &'static str {
        self.pick(ground_phrases(self.scene.ground))
    }

    /// Where `a` is, seen from `b`; either way is true where both are.
    fn relation(&mut self, a: &Thing, b: &Thing) -> &'static str {
        let (dx, dy) = (a.x - b.x, a.y - b.y);
        let sideways = if dx.abs() > 1.5 * dy.abs() {
            true
        } else if dy.abs() > 1.5 * dx.abs() {
            false
        } else {
            self.voice.below(2) == 0
        };
        self.pick(match (sideways, dx < 0.0, dy < 0.0) {
            (true, true, _) => &["to the left of", "left of", "on the left side of"],
            (true, false, _) => &["to the right of", "right of", "on the right side of"],
            (false, _, true) => &["above", "above", "higher than"],
            (false, _, false) => &["below", "under", "lower than"],
        })
    }

    /// Where a thing is in the picture.
    fn position(&mut self, thing: &Thing) -> &'static str {
        let third = |at: f64| if at < 0.4 { 0 } else { usize::from(at > 0.6) + 1 };
        self.pick(match (third(thing.x), third(thing.y)) {
            (0, 0) => &["in the upper left", "in the top left corner", "at the top left"],
            (1, 0) => &["at the top", "in the upper middle"],
            (2, 0) => &["in the upper right", "in the top right corner", "at the top right"],
            (0, 1) => &["on the left", "at the left edge"],
            (1, 1) => &["in the middle", "in the centre"],
            (2, 1) => &["on the right", "at the right edge"],
            (0, _) => &["in the lower left", "in the bottom left corner", "at the bottom left"],
            (1, _) => &["at the bottom", "in the lower middle"],
            (_, _) => &["in the lower right", "in the bottom right corner", "at the bottom right"],
        })
    }
}

fn there_is(thing: &Thing) -> &'static str {
    if thing.count > 1 { "there are" } else { "there is" }
}

/// "a red ball", "two red balls"
fn counted(thing: &Thing, words: &[&str]) -> String {
    let mut words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let number = match thing.count {
        1 if words[0].starts_with(['a', 'e', 'i', 'o', 'u']) => "an",
        1 => "a",
        2 => "two",
        _ => "three",
    };
    if thing.count > 1
        && let Some(noun) = words.last_mut()
    {
        *noun = plural(noun);
    }
    format!("{number} {}", words.join(" "))
}

fn plural(noun: &str) -> String {
    match noun {
        "fish" => noun.to_owned(),
        _ if noun.ends_with(['s', 'x']) => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// "a, b and c"
fn and(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.trim_start().chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).chain(['.']).collect()
}

fn size_words(size: Size) -> &'static [&'static str] {
    match size {
        Size::Small => &["small", "little", "tiny"],
        Size::Medium => &["medium-sized", "mid-sized"],
        Size::Large => &["large", "big", "huge"],
    }
}

fn colour_words(colour: Colour) -> &'static [&'static str] {
    match colour {
        Colour::Red => &["red", "bright red"],
        Colour::Orange => &["orange"],
        Colour::Yellow => &["yellow", "bright yellow"],
        Colour::Green => &["green", "dark green"],
        Colour::Blue => &["blue", "dark blue"],
        Colour::Purple => &["purple", "violet"],
        Colour::Pink => &["pink", "light pink"],
        Colour::Brown => &["brown", "dark brown"],
        Colour::Black => &["black"],
        Colour::White => &["white"],
        Colour::Grey => &["grey", "gray"],
    }
}

fn nouns(shape: Shape) -> &'static [&'static str] {
    match shape {
        Shape::Ball => &["ball", "sphere"],
        Shape::Box => &["box", "parcel"],
        Shape::Pyramid => &["pyramid", "triangle"],
        Shape::Star => &["star", "five-pointed star"],
        Shape::Heart => &["heart"],
        Shape::Ring => &["ring", "hoop"],
        Shape::Diamond => &["diamond", "gem"],
        Shape::Cross => &["cross", "plus sign"],
        Shape::Moon => &["moon", "crescent"],
        Shape::House => &["house", "hut"],
        Shape::Tree => &["tree"],
        Shape::Flower => &["flower", "blossom"],
        Shape::Fish => &["fish"],
        Shape::Boat => &["boat", "sailing boat"],
        Shape::Mushroom => &["mushroom", "toadstool"],
        Shape::Cup => &["cup", "mug"],
    }
}

fn ground_phrases(ground: Ground) -> &'static [&'static str] {
    match ground {
        Ground::Meadow => &["on green grass", "in a meadow", "on a lawn under a blue sky"],
        Ground::Beach => &["on a sandy beach", "at the seaside", "on the sand by the sea"],
        Ground::Night => &["at night", "under a starry sky", "in the dark of the night"],
        Ground::Snow => &["in the snow", "on a snowy field", "in a white winter landscape"],
        Ground::Sunset => &["at sunset", "in the evening light", "in front of an orange evening sky"],
        Ground::Bricks => &["in front of a brick wall", "on a wall of bricks", "against red bricks"],
        Ground::Wood => &["on a wooden table", "on wooden planks", "on a board of wood"],
        Ground::Tiles => &["on a checkered floor", "on black and white tiles", "on a tiled floor"],
        Ground::Water => &["in blue water", "on the waves", "in the middle of a lake"],
        Ground::Paper => &["on white paper", "on a plain background", "on an empty page"],
    }
}
